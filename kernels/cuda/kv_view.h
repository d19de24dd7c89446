// How the KV cache lies in device memory, for host and device alike. Each layer and KV head has its
// blocks in one strip; within a block come 16 keys, their scales, 16 values, their scales. A key or
// value is one row:
//   f32, bf16, int8  its numbers one after the other; int8 has an f32 scale beside
//   int4, kivi2      levels in planes: first nibbles (two channels a byte, the even one low), where
//                    the levels have 4 bits or more; then pairs of bits (four channels a byte),
//                    where they have 2 bits more. A GroupRange for every 32 channels beside.
// Rows are padded to 16 bytes. Scores and positions lie in arrays beside, one entry a slot.

#ifndef HYDRANT_KERNELS_CUDA_KV_VIEW_H_
#define HYDRANT_KERNELS_CUDA_KV_VIEW_H_

#include <cstdint>

#include "kernels/batch.h"
#include "kernels/cuda/platform.h"
#include "kernels/kv_store.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kMaxHeadDim = 256;

// One side of a block: where the rows and their scales begin, and what one takes.
struct KvSide {
  int32_t rows, row_bytes;
  int32_t scales, scale_bytes;
};

// One layer of the store.
struct KvView {
  uint8_t* blocks;     // [kv_heads][num_blocks][block_bytes]
  float* scores;       // [kv_heads][num_blocks * kBlockSlots]
  int32_t* positions;  // the same
  KvDType dtype;
  int32_t num_blocks, kv_heads, head_dim;
  int32_t block_bytes;
  KvSide key, value;
  int32_t rotation;  // Hadamard block of the grouped dtypes, 1 for none
  float normalise;
  int32_t window;
};

__host__ __device__ inline int64_t PhysicalSlot(const int32_t* blocks, int32_t slot) {
  return static_cast<int64_t>(blocks[slot / kBlockSlots]) * kBlockSlots + slot % kBlockSlots;
}

// Calls launch with the store's dtype as a constant.
template <typename Launch>
void WithKvDType(KvDType dtype, const Launch& launch) {
  switch (dtype) {
    case KvDType::kF32:
      return launch.template operator()<KvDType::kF32>();
    case KvDType::kBF16:
      return launch.template operator()<KvDType::kBF16>();
    case KvDType::kInt8:
      return launch.template operator()<KvDType::kInt8>();
    case KvDType::kInt4:
      return launch.template operator()<KvDType::kInt4>();
    case KvDType::kKivi2:
      return launch.template operator()<KvDType::kKivi2>();
  }
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_KV_VIEW_H_
