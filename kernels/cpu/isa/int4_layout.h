// How int4 weights and the activations that meet them lie in memory, in groups of 32 columns
// (kInt4Group). For every instruction set alike.
//
//   weights      for each sixteen outputs of a tile and each group, 320 bytes: four times sixteen
//                words, of which word c of an output holds its levels of columns 8c to 8c + 7, byte
//                j those of 8c + j (low half) and 8c + 4 + j; sixteen scales; sixteen zeros, f16
//   activations  for each group, 40 bytes: its int8; their scale; scale * float(sum), f32

#ifndef HYDRANT_KERNELS_CPU_ISA_INT4_LAYOUT_H_
#define HYDRANT_KERNELS_CPU_ISA_INT4_LAYOUT_H_

#include "kernels/quantization.h"

namespace hydrant::kernels::cpu {

static constexpr int64_t kInt4Outputs = 16;  // that lie together
static constexpr int64_t kInt4Words = 4;     // of levels in a group of one output
static constexpr int64_t kInt4ScalesAt = kInt4Words * kInt4Outputs * 4;
static constexpr int64_t kInt4ZerosAt = kInt4ScalesAt + kInt4Outputs * 2;
static constexpr int64_t kInt4WeightBytes = kInt4ZerosAt + kInt4Outputs * 2;

static constexpr int64_t kInt4XScaleAt = kInt4Group;
static constexpr int64_t kInt4XSumAt = kInt4XScaleAt + 4;
static constexpr int64_t kInt4XBytes = kInt4XSumAt + 4;

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_ISA_INT4_LAYOUT_H_
