// Rotary embedding and the store of keys and values; reading slots back.

#ifndef HYDRANT_KERNELS_CUDA_STORE_H_
#define HYDRANT_KERNELS_CUDA_STORE_H_

#include "kernels/cuda/device_batch.h"
#include "kernels/cuda/kv_view.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

struct StoreRows {
  DeviceBatch batch;
  KvView kv;
  const float* table;  // [rows, rotary_dim]
  float* qkv;          // [rows, (heads + 2 kv_heads) * head_dim]
  int64_t rows;
  int heads, rotary_dim, layer;
};
void LaunchRopeAndStore(const StoreRows& store, cudaStream_t stream);

// Position, key and value of physical slot slots[i] of one head, keys and values unrotated,
// [count, head_dim] f32; values may be null.
void LaunchReadSlots(const KvView& kv, int head, const int64_t* slots, int count,
                     int32_t* positions, float* keys, float* values, cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_STORE_H_
