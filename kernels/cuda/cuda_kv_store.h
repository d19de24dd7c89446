// The KV cache in device memory, in the layout of kv_view.h, taken at once.

#ifndef HYDRANT_KERNELS_CUDA_CUDA_KV_STORE_H_
#define HYDRANT_KERNELS_CUDA_CUDA_KV_STORE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/kv_view.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// Bytes of one block over all layers and heads, scores and positions included.
size_t BlockBytes(const KvGeometry& geometry);

class CudaKvStore final : public KvStore {
 public:
  // INVALID_ARGUMENT for an impossible geometry, RESOURCE_EXHAUSTED where the memory is not there.
  static absl::StatusOr<std::unique_ptr<KvStore>> Create(const KvGeometry& geometry,
                                                         const Device& device);
  // The store behind the interface; aborts when another backend made it.
  static CudaKvStore& From(KvStore& kv);

  void Prefault(int32_t first, int32_t count) override;
  int32_t Position(int layer, int head, int64_t slot) const override;
  float Score(int layer, int head, int64_t slot) const override;
  void ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const override;

  const KvView& layer(int layer) const { return layers_[layer]; }
  const KvView* device_layers() const { return static_cast<const KvView*>(device_layers_.data()); }

  // Many slots of one layer and head at once: positions [slots], keys and values [slots, head_dim],
  // which are this store's until the next call; values are null unless asked for.
  struct Slots {
    const int32_t* positions;
    const float* keys;
    const float* values;
  };
  Slots Read(int layer, int head, std::span<const int64_t> slots, bool values) const;

 private:
  CudaKvStore(const KvGeometry& geometry, const Device& device);
  bool Allocate();

  const Device& device_;
  Buffer blocks_, scores_, positions_, device_layers_;
  std::vector<KvView> layers_;
  // What Read works with.
  mutable DeviceMemory device_slots_, device_rows_;
  mutable PinnedMemory rows_;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_CUDA_KV_STORE_H_
