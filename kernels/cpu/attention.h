// Attention over the KV cache: shares out strips of query rows among the threads and keeps the
// additions to the scores in order.

#ifndef HYDRANT_KERNELS_CPU_ATTENTION_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_kv_store.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"

namespace hydrant::kernels::cpu {

class AttentionRunner {
 public:
  AttentionRunner(const KernelTable& kernels, ThreadPool& pool);

  void Reserve(int max_rows, int64_t max_slots, const AttentionShape& shape);
  void Run(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv, CpuKvStore& kv,
           Matrix out);

 private:
  // A sequence's share of the work: for each KV head its query rows (tokens times query heads of
  // the group, tokens first) in strips, and the strips in claims.
  struct Plan {
    int32_t sequence;
    int64_t cost;
    int32_t rows;  // query rows of one KV head
    int32_t strips;
    int32_t first_claim;  // claims of the sequence follow each other, KV heads innermost
  };
  // What the claims of one call have in common.
  struct Call;

  // Returns the number of claims.
  int64_t MakePlans(const Batch& batch, const AttentionShape& shape, KvDType dtype);
  // A claim's strips: of one sequence and KV head, [first, end).
  struct Claim {
    const Plan* plan;
    int head;
    int32_t first, end;
  };
  Claim FindClaim(int64_t number, int kv_heads) const;
  // `next` is the claim that the same thread is likely to run then, or null.
  void RunStrip(const Call& call, const Plan& plan, int head, int32_t strip, const Claim* next,
                int member);
  // The recall of a strip whose keys were attended to; `first` is its first query row of `head`.
  void MeasureRecall(const Call& call, const BatchSequence& sequence, int head, int32_t first,
                     const StripArgs& args);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  const int64_t max_strip_rows_;
  int64_t max_sequences_ = 0;
  int64_t max_slots_ = 0;
  int64_t max_head_dim_ = 0;
  int64_t max_kv_heads_ = 0;
  std::vector<Plan> plans_;
  // The strip of a sequence and KV head whose turn it is to add to the scores.
  std::unique_ptr<std::atomic<int32_t>[]> turns_;
  int64_t scratch_bytes_ = 0;  // of one thread
  Piece scratch_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_H_
