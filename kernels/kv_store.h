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
//   int4  each token's key and value of a KV head on its own, rotated (HadamardRotate) and then
//         quantised in groups of kKvGroupChannels channels by QuantizeGroups (quantization.h): a
//         key to 6 bits and a value to 4, with a bf16 scale and zero for each group. Queries are
//         rotated to match, outputs back; the accessors give keys and values unrotated. The rest
//         as in int8.
//   kivi2 as int4, a key to 4 bits and a value to 2.
//
// Why the keys have more bits than the name says: an error of a key is an error of the softmax's
// exponent, and every value is weighted by it, while the errors of values average out. On
// SmolLM2-135M-Instruct 4-bit keys cost 5 % of perplexity, 6-bit keys half a percent. Rotation
// spreads a key's few outlier channels over all of its head.
//
// Why no per-channel keys (KIVI, Liu et al. 2024): scales that many tokens share must be known when
// a token is stored. Those of the tokens before it do not fit it, since rotary embedding turns the
// channels as positions grow (the attention's error trebles); those of its neighbours are known
// later, so recent tokens would be held in bf16 and quantised in a second step, which a slot
// that is overwritten one token at a time cannot take. A token that is quantised once, alone, is
// the same whatever the chunks, the batch, the evictions and the preemptions.
enum class KvDType { kF32, kBF16, kInt8, kInt4, kKivi2 };

inline constexpr KvDType kKvDTypes[] = {KvDType::kF32, KvDType::kBF16, KvDType::kInt8,
                                        KvDType::kInt4, KvDType::kKivi2};

std::string_view KvDTypeName(KvDType dtype);  // "f32", "bf16", "int8", "int4", "kivi2"

// Bits of one number of a key and of a value.
struct KvBits {
  int key = 0;
  int value = 0;
};
KvBits KvBitsOf(KvDType dtype);

// Channels of a head that share a scale and zero in int4 and kivi2; the last group may have fewer.
inline constexpr int kKvGroupChannels = 32;
constexpr bool KvIsGrouped(KvDType dtype) {
  return dtype == KvDType::kInt4 || dtype == KvDType::kKivi2;
}
constexpr int KvGroups(int head_dim) {
  return (head_dim + kKvGroupChannels - 1) / kKvGroupChannels;
}

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
