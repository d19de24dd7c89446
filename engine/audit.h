// Audits: what the eviction of a request loses, measured while it runs.
//
// An audited request keeps a shadow copy of the key of every token evicted, as bf16 in host memory.
// At an audited decode step each query head of each layer weighs them beside the keys that are held
// (kernels/recall.h), and the request's Recall is taken over all of these. Until something is
// evicted, attention is that of the full cache: the recall is 1 without being measured.
//
// Which steps are audited. Reading every evicted key at every step would cost more than attention
// itself, for far more is evicted than held in a long answer. So:
//
//   The first decode step after the first eviction is audited. After that a step is audited when,
//   since then and with it, at most half as many evicted keys have been read as held ones:
//   2 * (evicted read + evicted now) <= held read.
//
// Attention reads a key and a value for each held token and an audit a key alone, so that is about
// a quarter of attention's own traffic over time, and less of a step's. The first step may go
// beyond: it reads each evicted key once, as one more token of the prompt would have. The rule sees
// the counts of its own request only, so which steps are audited depends on nothing else.
//
// Memory. All audits share AuditMemory and grow block by block as tokens are evicted. When it is
// full, the audit that asked ends early: its memory returns at once, and the Recall is of what was
// measured until then. Streams are not touched by any of this.
//
// Not thread-safe: made on the submitter's thread, from then on the engine thread's, but for Take.

#ifndef HYDRANT_ENGINE_AUDIT_H_
#define HYDRANT_ENGINE_AUDIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "kernels/evicted_store.h"
#include "kernels/recall.h"

namespace hydrant::engine {

// Of the model that is audited.
struct AuditShape {
  int32_t layers = 0;
  int32_t heads = 0;  // query heads
  int32_t kv_heads = 0;
  int32_t head_dim = 0;

  // Of a block: kernels::kBlockSlots keys for each layer and KV head.
  int64_t block_bytes() const;
};

// The bytes that all audits may hold together, and do.
class AuditMemory {
 public:
  explicit AuditMemory(int64_t limit) : limit_(limit) {}
  AuditMemory(const AuditMemory&) = delete;
  AuditMemory& operator=(const AuditMemory&) = delete;

  int64_t limit() const { return limit_; }
  int64_t used() const { return used_; }
  bool Take(int64_t bytes);  // false: that would be more than the limit
  void Return(int64_t bytes) { used_ -= bytes; }

 private:
  const int64_t limit_;
  int64_t used_ = 0;
};

class Audit final : public kernels::EvictedStore {
 public:
  // `memory` outlives the audit.
  Audit(const AuditShape& shape, AuditMemory& memory);
  ~Audit() override { Release(); }

  // Before Evict or Compact takes `tokens` of each layer and head: the store for the EvictionItem,
  // or null where the audit has ended, or does for lack of memory.
  kernels::EvictedStore* MakeRoom(int32_t tokens);

  // Before a decode pass that attends to `held` tokens: what the pass is to measure, or null when
  // this step is not audited. EndStep follows when the pass is done.
  const kernels::RecallAudit* BeginStep(int32_t held);
  void EndStep();

  // Returns the memory; the audit measures no more. Again does nothing.
  void Release();

  Recall Result() const;

  // EvictedStore; from the backend's threads, see there.
  bool takes_values() const override { return false; }
  void Take(int layer, int head, int32_t index, int32_t position, const float* key,
            const float* value) override;

 private:
  // Recalls are counted by thousandths, rounded down; the last is 1 itself.
  static constexpr int kBins = 1001;
  struct FreeBlock {
    void operator()(uint8_t* block) const;
  };

  const AuditShape shape_;
  AuditMemory& memory_;
  std::vector<std::unique_ptr<uint8_t[], FreeBlock>> blocks_;
  std::vector<const uint8_t*> block_pointers_;
  int32_t count_ = 0;        // tokens evicted, those of a call in progress included
  int32_t first_taken_ = 0;  // of the call in progress
  bool ended_early_ = false;
  bool released_ = false;

  // Keys of each layer and head, since the first eviction.
  int64_t held_read_ = 0;
  int64_t evicted_read_ = 0;
  bool in_audited_step_ = false;
  kernels::RecallAudit step_;
  std::vector<float> recall_;  // [layers, heads], of the step

  int32_t steps_ = 0;
  std::vector<double> layer_sums_;  // [layers]
  std::array<int64_t, kBins> histogram_{};
};

// Whether the `arrival`-th request is in the sample that a rate of audits takes, for those that say
// nothing themselves: as good as random, and the same every time.
bool IsSampledForAudit(int64_t arrival, double rate);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_AUDIT_H_
