// The memory behind the KV cache: for every layer, KV head and slot the rotated key, the value, the
// accumulated attention score (fp32) and the token's position (i32). How keys and values lie within
// a block is the backend's own business; the accessors here are for tests, audits and tools.

#ifndef HYDRANT_KERNELS_KV_STORE_H_
#define HYDRANT_KERNELS_KV_STORE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant::kernels {

// What is rounded; sums, the softmax and scores are f32 in each.
//   f32   nothing
//   bf16  keys and values when they are stored, and the queries and the unnormalised softmax
//         weights that multiply them
//   int8  keys and values when they are stored, each token's key and value of a KV head on its own,
//         by QuantizeInt8 (quantization.h): int8 values and one f32 scale, whose product is what is
//         attended to. Queries and softmax weights stay f32. A token sees itself as it is stored,
//         and a slot moves with its bytes: nothing is ever quantised twice.
enum class KvDType { kF32, kBF16, kInt8 };

std::string_view KvDTypeName(KvDType dtype);  // "f32", "bf16", "int8"
// Bytes of one number of a key or value, and of the scale of a key or value (0: it has none).
size_t KvElementBytes(KvDType dtype);
size_t KvScaleBytes(KvDType dtype);

struct KvGeometry {
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KvDType dtype = KvDType::kBF16;
  int32_t num_blocks = 0;
  // Sliding window of each layer in tokens (a query at p attends to positions > p - window), 0 for
  // none. Empty: no layer has one. An architecture's own limit, not an eviction policy.
  std::vector<int32_t> windows;

  bool has_windows() const {
    return std::any_of(windows.begin(), windows.end(), [](int32_t w) { return w > 0; });
  }
  int32_t window(int layer) const { return windows.empty() ? 0 : windows[layer]; }
};

class KvStore {
 public:
  explicit KvStore(KvGeometry geometry) : geometry_(std::move(geometry)) {}
  virtual ~KvStore() = default;
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  const KvGeometry& geometry() const { return geometry_; }

  // Makes the memory of blocks [first, first + count) resident before it is used. May be called
  // from any thread, while other blocks are in use. Never changes what is stored.
  virtual void Prefault(int32_t first, int32_t count) = 0;

  // One slot, copied out. `slot` is a physical slot: block id * kBlockSlots + place in the block.
  // Not during a pass. key and value hold head_dim floats; value may be null.
  virtual int32_t Position(int layer, int head, int64_t slot) const = 0;
  virtual float Score(int layer, int head, int64_t slot) const = 0;
  virtual void ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const = 0;

 private:
  KvGeometry geometry_;
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_KV_STORE_H_
