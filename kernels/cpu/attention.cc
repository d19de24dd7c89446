#include "kernels/cpu/attention.h"

#include <sched.h>

#include <algorithm>
#include <iterator>

#include "kernels/check.h"
#include "kernels/cpu/round_up.h"
#include "kernels/quantization.h"
#include "kernels/recall.h"

namespace hydrant::kernels::cpu {
namespace {

// Enough strips to be worth a claim, few enough to end evenly.
constexpr int32_t kStripsPerClaim = 4;
constexpr int kSpinsBeforeYield = 1000;

// A row of scratch for `slots` probabilities: whole groups of blocks, and a cache line more, so
// that the rows of a strip do not compete for the same lines of the cache.
int64_t Stride(int64_t slots) { return RoundUp(slots, 64) + 16; }

int32_t CeilDivide(int32_t a, int32_t b) { return (a + b - 1) / b; }

}  // namespace

struct AttentionRunner::Call {
  const Batch& batch;
  const AttentionShape& shape;
  int layer;
  Matrix qkv;
  CpuKvStore& kv;
  Matrix out;
};

AttentionRunner::AttentionRunner(const KernelTable& kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      max_strip_rows_(
          *std::max_element(std::begin(kernels.strip_rows), std::end(kernels.strip_rows))) {}

void AttentionRunner::Reserve(int max_rows, int64_t max_slots, const AttentionShape& shape) {
  max_sequences_ = max_rows;
  max_slots_ = max_slots;
  max_head_dim_ = shape.head_dim;
  max_kv_heads_ = shape.kv_heads;
  plans_.clear();
  plans_.reserve(max_sequences_);
  turns_ = std::make_unique<std::atomic<int32_t>[]>(max_sequences_ * max_kv_heads_);
  const int64_t row = 2 * Stride(max_slots) + RoundUp(shape.head_dim, 16);
  scratch_bytes_ = RoundUp(max_strip_rows_ * row * static_cast<int64_t>(sizeof(float)), 4096);
  Arena arena;
  scratch_ = arena.Cut(scratch_bytes_ * pool_.size());
}

int64_t AttentionRunner::MakePlans(const Batch& batch, const AttentionShape& shape, KvDType dtype) {
  HYDRANT_CHECK(static_cast<int64_t>(batch.sequences.size()) <= max_sequences_);
  const int32_t group = shape.heads / shape.kv_heads;
  const int32_t strip_rows = kernels_.strip_rows[static_cast<size_t>(dtype)];
  plans_.clear();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    HYDRANT_CHECK(sequence.num_slots <= max_slots_);
    const int32_t rows = sequence.num_rows * group;
    const int64_t evicted = sequence.audit == nullptr ? 0 : sequence.audit->count;
    plans_.push_back({.sequence = static_cast<int32_t>(i),
                      .cost = int64_t{rows} * (sequence.num_slots + evicted),
                      .rows = rows,
                      .strips = CeilDivide(rows, strip_rows),
                      .first_claim = 0});
  }
  // Largest first, so that the end of the queue evens out.
  std::sort(plans_.begin(), plans_.end(), [](const Plan& a, const Plan& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.sequence < b.sequence;
  });
  int32_t claims = 0;
  for (Plan& plan : plans_) {
    plan.first_claim = claims;
    claims += CeilDivide(plan.strips, kStripsPerClaim) * shape.kv_heads;
  }
  return claims;
}

void AttentionRunner::Run(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                          CpuKvStore& kv, Matrix out) {
  HYDRANT_CHECK(shape.head_dim <= max_head_dim_ && shape.kv_heads <= max_kv_heads_);
  HYDRANT_CHECK(out.rows == qkv.rows && out.cols == int64_t{shape.heads} * shape.head_dim);
  const int64_t claims = MakePlans(batch, shape, kv.geometry().dtype);
  for (int64_t i = 0; i < static_cast<int64_t>(plans_.size()) * shape.kv_heads; ++i) {
    turns_[i].store(0, std::memory_order_relaxed);
  }
  const Call call{batch, shape, layer, qkv, kv, out};
  pool_.ForEach(claims, 1, [&](int64_t number, int member) {
    const Claim claim = FindClaim(number, shape.kv_heads);
    // Claims of about equal cost are taken in turn.
    const bool last = number + pool_.size() >= claims;
    const Claim next = last ? claim : FindClaim(number + pool_.size(), shape.kv_heads);
    for (int32_t strip = claim.first; strip < claim.end; ++strip) {
      RunStrip(call, *claim.plan, claim.head, strip, last ? nullptr : &next, member);
    }
  });
}

AttentionRunner::Claim AttentionRunner::FindClaim(int64_t number, int kv_heads) const {
  const auto after =
      std::upper_bound(plans_.begin(), plans_.end(), number,
                       [](int64_t value, const Plan& plan) { return value < plan.first_claim; });
  const Plan& plan = *(after - 1);
  const auto local = static_cast<int32_t>(number - plan.first_claim);
  const int32_t first = local / kv_heads * kStripsPerClaim;
  return {&plan, local % kv_heads, first, std::min(first + kStripsPerClaim, plan.strips)};
}

void AttentionRunner::RunStrip(const Call& call, const Plan& plan, int head, int32_t strip,
                               const Claim* next, int member) {
  const AttentionShape& shape = call.shape;
  const BatchSequence& sequence = call.batch.sequences[plan.sequence];
  const KvLayout& layout = call.kv.layout();
  const KvGeometry& geometry = call.kv.geometry();
  const int32_t group = shape.heads / shape.kv_heads;
  const int32_t window = geometry.window(call.layer);
  // Strips of about equal height.
  const auto begin = static_cast<int32_t>(int64_t{plan.rows} * strip / plan.strips);
  const auto end = static_cast<int32_t>(int64_t{plan.rows} * (strip + 1) / plan.strips);

  StripArgs args;
  args.kv = call.kv.blocks(call.layer, head);
  args.block_bytes = static_cast<int64_t>(layout.block_bytes);
  args.at = layout.at;
  args.blocks = sequence.blocks;
  args.head_dim = shape.head_dim;
  args.hadamard_block = static_cast<int32_t>(HadamardBlock(shape.head_dim));
  args.hadamard_normalise = HadamardNormalise(args.hadamard_block);
  args.scale = shape.scale;
  args.count = end - begin;
  args.positions = window > 0 ? call.kv.positions(call.layer, head) : nullptr;
  args.keep_probabilities = sequence.keep_scores;
  args.stride = Stride(sequence.num_slots);
  uint8_t* scratch = scratch_.data + member * scratch_bytes_;
  args.probabilities = reinterpret_cast<float*>(scratch);
  args.narrow = args.probabilities + max_strip_rows_ * args.stride;
  args.query_scratch = args.probabilities + 2 * max_strip_rows_ * args.stride;
  for (int32_t i = 0; i < args.count; ++i) {
    const int32_t token = (begin + i) / group;
    const int64_t row = sequence.first_row + token;
    const int64_t column = (head * group + (begin + i) % group) * int64_t{shape.head_dim};
    args.query[i] = call.qkv.f32() + row * call.qkv.cols + column;
    args.out[i] = call.out.f32() + row * call.out.cols + column;
    // A row that fills a hole sees every slot; one that is appended those up to its own.
    args.limit[i] = sequence.num_slots - sequence.num_rows + token + 1;
    args.first_visible[i] = call.batch.positions[row] - window + 1;
  }

  args.next_count = 0;
  if (next != nullptr) {
    const BatchSequence& following = call.batch.sequences[next->plan->sequence];
    args.next_kv = call.kv.blocks(call.layer, next->head);
    args.next_blocks = following.blocks;
    args.next_count = CeilDivide(following.num_slots, kBlockSlots);
  }

  const auto dtype = static_cast<size_t>(geometry.dtype);
  kernels_.attend_keys[dtype](args);
  kernels_.attend_values[dtype](args);
  if (sequence.audit != nullptr) MeasureRecall(call, sequence, head, begin, args);
  if (!sequence.keep_scores) return;
  // Strips add their probabilities one after the other. A strip's predecessors were claimed before
  // it, so they are done or at work.
  std::atomic<int32_t>& turn = turns_[plan.sequence * int64_t{shape.kv_heads} + head];
  for (int spin = 0; turn.load(std::memory_order_acquire) != strip; ++spin) {
    if (spin < kSpinsBeforeYield) {
      SpinPause();
    } else {
      sched_yield();
    }
  }
  kernels_.add_scores(args, call.kv.scores(call.layer, head));
  turn.store(strip + 1, std::memory_order_release);
}

void AttentionRunner::MeasureRecall(const Call& call, const BatchSequence& sequence, int head,
                                    int32_t first, const StripArgs& args) {
  const AttentionShape& shape = call.shape;
  const RecallAudit& audit = *sequence.audit;
  const size_t strip = size_t(call.layer) * shape.kv_heads + head;
  const EvictedArgs evicted{.blocks = audit.blocks,
                            .offset = strip * EvictedStripBytes(shape.head_dim),
                            .count = audit.count,
                            .windowed = args.positions != nullptr};
  float largest[kMaxStripRows], sum[kMaxStripRows];
  kernels_.sum_evicted(args, evicted, largest, sum);
  const int32_t group = shape.heads / shape.kv_heads;
  float* recall = audit.recall + int64_t{call.layer} * shape.heads + head * group + first;
  for (int32_t i = 0; i < args.count; ++i) {
    recall[i] = RecallOf({args.reference[i], 1.0f / args.inverse_sum[i]}, {largest[i], sum[i]});
  }
}

}  // namespace hydrant::kernels::cpu
