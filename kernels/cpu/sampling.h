// Chooses tokens from rows of logits, see kernels/sampling.h.

#ifndef HYDRANT_KERNELS_CPU_SAMPLING_H_
#define HYDRANT_KERNELS_CPU_SAMPLING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "kernels/candidates.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/sampling.h"

namespace hydrant::kernels::cpu {

// Threads share out pieces of the rows to find their largest logits, then the rows themselves.
class SampleRunner {
 public:
  explicit SampleRunner(ThreadPool& pool) : pool_(pool), scratch_(pool.size()) {}

  void Run(Matrix logits, std::span<const TokenDraw> draws, std::span<int32_t> tokens);

 private:
  struct Scratch {
    Candidates candidates;
    std::vector<double> sums_of_blocks;
  };

  // Of a row that is changed already; `maxima` are those of its pieces.
  int32_t Choose(std::span<const float> logits, std::span<const float> maxima,
                 const TokenDraw& draw, Scratch& scratch) const;

  ThreadPool& pool_;
  std::vector<Scratch> scratch_;  // of each thread
  std::vector<float> maxima_;     // [draws, pieces]
  // The logits that changes took the place of, of one draw after the other; where those of each
  // begin.
  std::vector<float> replaced_;
  std::vector<size_t> first_replaced_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_SAMPLING_H_
