// What goes across lanes.

#ifndef HYDRANT_KERNELS_CPU_ISA_LANES_H_
#define HYDRANT_KERNELS_CPU_ISA_LANES_H_

#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// Exchanges each lane with the one whose index differs in bit kStride.
template <int kStride>
HYDRANT_INLINE F16 SwapLanes(F16 v) {
  F16 r;
  if constexpr (kStride < kPartLanes) {
    PartI order;
    HYDRANT_UNROLL for (int j = 0; j < kPartLanes; ++j) order[j] = j ^ kStride;
    HYDRANT_EACH_PART r.part[i] = __builtin_shuffle(v.part[i], order);
  } else {
    HYDRANT_EACH_PART r.part[i] = v.part[i ^ (kStride / kPartLanes)];
  }
  return r;
}

// Reductions over the lanes, always in the same tree.
HYDRANT_INLINE float ReduceAdd(F16 v) {
  v = v + SwapLanes<8>(v);
  v = v + SwapLanes<4>(v);
  v = v + SwapLanes<2>(v);
  v = v + SwapLanes<1>(v);
  return v.part[0][0];
}
HYDRANT_INLINE float ReduceMin(F16 v) {
  v = Min(v, SwapLanes<8>(v));
  v = Min(v, SwapLanes<4>(v));
  v = Min(v, SwapLanes<2>(v));
  v = Min(v, SwapLanes<1>(v));
  return v.part[0][0];
}
HYDRANT_INLINE float ReduceMax(F16 v) {
  v = Max(v, SwapLanes<8>(v));
  v = Max(v, SwapLanes<4>(v));
  v = Max(v, SwapLanes<2>(v));
  v = Max(v, SwapLanes<1>(v));
  return v.part[0][0];
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_LANES_H_
