// y = x W^T over packed weights: activations are brought to the weights' form, then tiles are
// shared out among the threads. Which thread computes a tile never changes a result.

#ifndef HYDRANT_KERNELS_CPU_LINEAR_H_
#define HYDRANT_KERNELS_CPU_LINEAR_H_

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/thread_pool.h"

namespace hydrant::kernels::cpu {

class LinearRunner {
 public:
  LinearRunner(const KernelTable& kernels, ThreadPool& pool);

  // Scratch for activations of up to max_rows x max_cols.
  void Reserve(int max_rows, int64_t max_cols);
  void Run(Matrix x, const PackedWeights& w, const float* bias, bool accumulate, Matrix y);
  // Backend::GatedLinear, where CanGate: both halves of an output meet while they are near.
  bool CanGate(const Matrix& x, const PackedWeights& w) const;
  void RunGated(Matrix x, const PackedWeights& w, const float* bias, GateKernel* gate, Matrix y);

 private:
  using Kernel = void(const LinearArgs&, int64_t tile_begin, int64_t tile_end, int64_t row_begin,
                      int64_t row_end);
  // Brings x to the weights' form. The args have no y.
  LinearArgs Prepare(Matrix x, const PackedWeights& w, const float* bias);
  Kernel* KernelOf(WeightDType dtype) const;
  // Of an activation row as the kernels of a dtype other than f32 read it; at most 2 * padded.
  int64_t RowBytes(WeightDType dtype, int64_t padded) const;
  void PrepareRow(const Matrix& x, WeightDType dtype, int64_t padded, int64_t row, int member);

  const KernelTable& kernels_;
  ThreadPool& pool_;
  int64_t max_rows_ = 0;
  int64_t max_cols_ = 0;
  Piece activations_;  // [max_rows] of RowBytes
  Piece rotated_;      // [threads][max_cols] f32
  Piece gated_;        // [threads][kGatedRows][kGatedTiles of gates, then of ups] f32
  std::vector<float> scales_;
  std::vector<int32_t> sums_;
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_LINEAR_H_
