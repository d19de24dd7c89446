// Eviction over all layers and heads (Backend::Evict and Backend::Compact).

#ifndef HYDRANT_KERNELS_CPU_EVICTION_H_
#define HYDRANT_KERNELS_CPU_EVICTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/batch.h"
#include "kernels/cpu/cpu_kv_store.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/thread_pool.h"

namespace hydrant::kernels::cpu {

class EvictionRunner {
 public:
  EvictionRunner(const KernelTable& kernels, ThreadPool& pool);

  void Reserve(int64_t max_slots, int64_t head_dim);
  void Evict(std::span<const EvictionItem> items, CpuKvStore& kv);
  void Compact(std::span<const EvictionItem> items, CpuKvStore& kv);

 private:
  void CompactHead(const EvictionItem& item, int layer, int head, int member, CpuKvStore& kv);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  int64_t max_slots_ = 0;
  std::vector<std::vector<uint64_t>> ranks_;  // [threads][2 * max_slots]
  std::vector<std::vector<float>> rows_;      // [threads][2 * head_dim]
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_EVICTION_H_
