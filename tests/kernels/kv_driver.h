// Runs sequences through the KV cache of one backend: passes of RopeAndStore and Attention over all
// layers, eviction and compaction, with the bookkeeping of slots, holes and blocks that the engine
// does. The inputs of a token depend on its sequence's seed, its position and the layer alone, so
// that the same sequences can be run in other batches, in other cuts and on other backends.

#ifndef HYDRANT_TESTS_KERNELS_KV_DRIVER_H_
#define HYDRANT_TESTS_KERNELS_KV_DRIVER_H_

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/backends.h"

namespace hydrant::kernels {

// Attention outputs agree within `tolerance`. With a bf16 cache a softmax weight at the edge
// between two bf16 numbers may honestly round to either: single elements may then be a step of 2^-8
// apart, while their mean stays as close, or within `bf16_rounding` where that is more.
template <typename T>
void ExpectCloseOutputs(const std::vector<float>& actual, const std::vector<T>& expected,
                        KvDType dtype, double tolerance, double bf16_rounding = 0.0) {
  if (dtype != KvDType::kBF16) return ExpectClose(actual, expected, tolerance);
  ExpectClose(actual, expected, 0x1p-8);
  double sum = 0.0;
  for (size_t i = 0; i < actual.size(); ++i) sum += std::fabs(actual[i] - double(expected[i]));
  EXPECT_LE(sum / actual.size(), std::max(tolerance, bf16_rounding))
      << "mean error of " << actual.size() << " elements";
}

// What attention over `dtype` may differ by, where `tolerance` is meant for sums in f32. With
// AVX512-VNNI int8 is multiplied in integers, by queries and softmax weights rounded to 16 bits of
// the largest.
inline double AttentionTolerance(const std::string& backend, KvDType dtype, double tolerance) {
  const bool integers = backend.starts_with("cpu:avx512") || backend == "cpu:amx";
  return dtype == KvDType::kInt8 && integers ? std::max(tolerance, 0x1p-13) : tolerance;
}

struct KvShape {
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int layers = 2;
  KvDType dtype = KvDType::kF32;
  std::vector<int32_t> windows = {};
  int rotary_dim = -1;     // -1: the whole head
  float rope_base = 1e4f;  // 0: angles of zero, so that rotation is the identity
  int num_blocks = 64;
  int max_rows = 512;

  int qkv_cols() const { return (heads + 2 * kv_heads) * head_dim; }
  AttentionShape attention() const {
    return {heads, kv_heads, head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim))};
  }
  RopeParams rope() const {
    RopeParams rope;
    rope.rotary_dim = rotary_dim < 0 ? head_dim : rotary_dim;
    for (int i = 0; i < rope.rotary_dim / 2; ++i) {
      rope.inv_freq.push_back(rope_base == 0.0f ? 0.0f
                                                : std::pow(rope_base, -2.0f * i / rope.rotary_dim));
    }
    return rope;
  }
};

// One slot of one layer and head, as read back.
struct Slot {
  int32_t position = 0;
  float score = 0.0f;
  std::vector<float> key, value;

  friend bool operator==(const Slot&, const Slot&) = default;
};

// Fills a token's qkv row before rotation.
using RowSource = std::function<void(uint64_t seed, int layer, int32_t position, float* row)>;

// Queries of moderate size, so that some tokens get much of the attention and none all of it.
inline RowSource RandomRows(const KvShape& shape) {
  const int queries = shape.heads * shape.head_dim;
  return
      [queries, cols = shape.qkv_cols()](uint64_t seed, int layer, int32_t position, float* row) {
        Random random(seed * 1'000'003 + position * 101 + layer);
        for (int c = 0; c < cols; ++c) row[c] = random.Float() * (c < queries ? 3.0f : 1.0f);
      };
}

class KvDriver {
 public:
  struct Part {
    int sequence = 0;
    int rows = 1;
    bool keep_scores = true;
    const RecallAudit* audit = nullptr;
  };

  KvDriver(std::unique_ptr<Backend> backend, KvShape shape)
      : KvDriver(std::move(backend), shape, RandomRows(shape)) {}

  KvDriver(std::unique_ptr<Backend> backend, KvShape shape, RowSource source)
      : backend_(std::move(backend)), shape_(std::move(shape)), source_(std::move(source)) {
    auto kv = backend_->CreateKvStore({shape_.layers, shape_.kv_heads, shape_.head_dim,
                                       shape_.dtype, shape_.num_blocks, shape_.windows});
    EXPECT_TRUE(kv.ok()) << kv.status();
    kv_ = std::move(*kv);
    kv_->Prefault(0, shape_.num_blocks);
    backend_->Reserve(shape_.max_rows, shape_.qkv_cols(), shape_.num_blocks * kBlockSlots,
                      shape_.attention());
    // Blocks are handed out in a scattered order (7 is prime to the count or the rest is appended).
    std::vector<bool> used(shape_.num_blocks, false);
    for (int i = 0, block = 3 % shape_.num_blocks; i < shape_.num_blocks; ++i) {
      while (used[block]) block = (block + 1) % shape_.num_blocks;
      used[block] = true;
      free_blocks_.push_back(block);
      block = (block + 7) % shape_.num_blocks;
    }
  }

  int Add(uint64_t seed) {
    sequences_[next_sequence_].seed = seed;
    return next_sequence_++;
  }

  // One forward pass. Gives, for each part, its attention output [layers, rows, heads * head_dim].
  std::vector<std::vector<float>> Pass(const std::vector<Part>& parts);
  std::vector<float> Pass(const Part& part) { return Pass(std::vector<Part>{part})[0]; }

  // The next row of each sequence goes into the slots that this gives up.
  void Evict(const std::vector<std::pair<int, EvictionPolicy>>& items);
  // Also returns the blocks that are no longer needed.
  void Compact(const std::vector<std::pair<int, EvictionPolicy>>& items);
  void Release(int sequence);
  // Is handed what the sequence gives up from now on.
  void SetEvictedStore(int sequence, EvictedStore* store) {
    sequences_.at(sequence).evicted = store;
  }

  // Makes the next row of a sequence go into these slots [layers, kv_heads].
  void SetHoles(int sequence, std::vector<int32_t> holes) {
    sequences_.at(sequence).holes = std::move(holes);
  }
  // The slot that waits to be overwritten, -1 where none does.
  int32_t Hole(int sequence, int layer, int head) const {
    const Sequence& s = sequences_.at(sequence);
    return s.holes.empty() ? -1 : s.holes[layer * shape_.kv_heads + head];
  }

  int32_t num_slots(int sequence) const { return sequences_.at(sequence).num_slots; }
  int32_t next_position(int sequence) const { return sequences_.at(sequence).next_position; }
  const std::vector<int32_t>& blocks(int sequence) const { return sequences_.at(sequence).blocks; }
  const KvShape& shape() const { return shape_; }
  const RowSource& source() const { return source_; }

  Slot Read(int layer, int head, int64_t physical_slot) const {
    Slot slot;
    slot.position = kv_->Position(layer, head, physical_slot);
    slot.score = kv_->Score(layer, head, physical_slot);
    slot.key.resize(shape_.head_dim);
    slot.value.resize(shape_.head_dim);
    kv_->ReadKeyValue(layer, head, physical_slot, slot.key.data(), slot.value.data());
    return slot;
  }
  // The slots of a sequence in slot order, of one layer and head, or of all one after the other.
  std::vector<Slot> Held(int sequence, int layer, int head) const {
    const Sequence& s = sequences_.at(sequence);
    std::vector<Slot> slots;
    for (int32_t i = 0; i < s.num_slots; ++i) {
      slots.push_back(
          Read(layer, head, int64_t{s.blocks[i / kBlockSlots]} * kBlockSlots + i % kBlockSlots));
    }
    return slots;
  }
  std::vector<Slot> Held(int sequence) const {
    std::vector<Slot> all;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (int head = 0; head < shape_.kv_heads; ++head) {
        for (Slot& slot : Held(sequence, layer, head)) all.push_back(std::move(slot));
      }
    }
    return all;
  }

 private:
  struct Sequence {
    uint64_t seed = 0;
    int32_t num_slots = 0;
    int32_t next_position = 0;
    std::vector<int32_t> blocks;
    std::vector<int32_t> holes;  // empty: append
    EvictedStore* evicted = nullptr;
  };

  std::vector<EvictionItem> Items(const std::vector<std::pair<int, EvictionPolicy>>& items);

  std::unique_ptr<Backend> backend_;
  KvShape shape_;
  RowSource source_;
  std::unique_ptr<KvStore> kv_;
  std::vector<int32_t> free_blocks_;
  std::map<int, Sequence> sequences_;
  int next_sequence_ = 0;
};

inline std::vector<std::vector<float>> KvDriver::Pass(const std::vector<Part>& parts) {
  Batch batch;
  std::vector<uint64_t> seeds;
  for (const Part& part : parts) {
    Sequence& s = sequences_.at(part.sequence);
    BatchSequence b;
    b.first_row = batch.num_rows();
    b.num_rows = part.rows;
    b.first_position = s.next_position;
    b.keep_scores = part.keep_scores;
    b.audit = part.audit;
    for (int i = 0; i < part.rows; ++i) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(s.next_position++);
      seeds.push_back(s.seed);
    }
    if (s.holes.empty()) s.num_slots += part.rows;
    while (static_cast<int32_t>(s.blocks.size()) * kBlockSlots < s.num_slots) {
      EXPECT_FALSE(free_blocks_.empty());
      s.blocks.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
    b.num_slots = s.num_slots;
    b.blocks = s.blocks.data();
    b.holes = s.holes.empty() ? nullptr : s.holes.data();
    batch.sequences.push_back(b);
  }

  const int rows = batch.num_rows();
  const int out_cols = shape_.heads * shape_.head_dim;
  const RopeParams rope = shape_.rope();
  const DeviceRows table =
      ToDevice(*backend_, std::vector<float>(rows * rope.rotary_dim, NAN), rows, rope.rotary_dim);
  backend_->ComputeRope(rope, batch.positions, table.matrix);
  std::vector<std::vector<float>> results(parts.size());
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::vector<float> values(rows * shape_.qkv_cols());
    for (int row = 0; row < rows; ++row) {
      source_(seeds[row], layer, batch.positions[row], values.data() + row * shape_.qkv_cols());
    }
    const DeviceRows qkv = ToDevice(*backend_, values, rows, shape_.qkv_cols());
    const DeviceRows out =
        ToDevice(*backend_, std::vector<float>(rows * out_cols, NAN), rows, out_cols);
    backend_->RopeAndStore(batch, shape_.attention(), rope.rotary_dim, table.matrix, qkv.matrix,
                           layer, *kv_);
    backend_->Attention(batch, shape_.attention(), layer, qkv.matrix, *kv_, out.matrix);
    const std::vector<float> host = ToHost(*backend_, out.matrix);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto first = host.begin() + batch.sequences[i].first_row * out_cols;
      results[i].insert(results[i].end(), first, first + parts[i].rows * out_cols);
    }
  }
  return results;
}

inline std::vector<EvictionItem> KvDriver::Items(
    const std::vector<std::pair<int, EvictionPolicy>>& items) {
  std::vector<EvictionItem> result;
  for (const auto& [sequence, policy] : items) {
    Sequence& s = sequences_.at(sequence);
    result.push_back(
        {policy, s.num_slots, s.next_position - 1, s.blocks.data(), nullptr, s.evicted});
  }
  return result;
}

inline void KvDriver::Evict(const std::vector<std::pair<int, EvictionPolicy>>& items) {
  std::vector<EvictionItem> list = Items(items);
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<int32_t>& holes = sequences_.at(items[i].first).holes;
    holes.assign(shape_.layers * shape_.kv_heads, -1);
    list[i].holes = holes.data();
  }
  backend_->Evict(list, *kv_);
}

inline void KvDriver::Compact(const std::vector<std::pair<int, EvictionPolicy>>& items) {
  backend_->Compact(Items(items), *kv_);
  for (const auto& [sequence, policy] : items) {
    Sequence& s = sequences_.at(sequence);
    s.num_slots = std::min(s.num_slots, policy.budget());
    while (static_cast<int32_t>(s.blocks.size()) * kBlockSlots >= s.num_slots + kBlockSlots) {
      free_blocks_.push_back(s.blocks.back());
      s.blocks.pop_back();
    }
  }
}

inline void KvDriver::Release(int sequence) {
  Sequence& s = sequences_.at(sequence);
  free_blocks_.insert(free_blocks_.end(), s.blocks.rbegin(), s.blocks.rend());
  sequences_.erase(sequence);
}

}  // namespace hydrant::kernels

#endif  // HYDRANT_TESTS_KERNELS_KV_DRIVER_H_
