// Dot products over pairs of bf16: lane i holds two neighbours along the reduction. AVX512-BF16 has
// an instruction for them; elsewhere a pair is split into two vectors of f32.

#ifndef HYDRANT_KERNELS_CPU_ISA_BF16_PAIRS_H_
#define HYDRANT_KERNELS_CPU_ISA_BF16_PAIRS_H_

#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

#if defined(__AVX512BF16__)

typedef uint16_t NarrowF;  // how a bf16 operand that is broadcast is kept
typedef I16 BF16Pairs;

HYDRANT_INLINE BF16Pairs LoadPairs(const void* from) { return LoadI(from); }
HYDRANT_INLINE BF16Pairs BroadcastPair(const void* from) { return BroadcastWord(from); }
// The second of each pair counts as absent.
HYDRANT_INLINE BF16Pairs FirstOnly(BF16Pairs v) { return v & SetI(0xffff); }
HYDRANT_INLINE F16 DotPairs(BF16Pairs a, BF16Pairs b, F16 sum) {
  // As assembly, since g++ 12 spills the accumulators around the intrinsic.
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.part[0]) : "v"(a.part[0]), "v"(b.part[0]));
  return sum;
}
HYDRANT_INLINE void StoreNarrow(NarrowF* to, F16 v) { StoreBF16(to, v); }

#else

typedef float NarrowF;
struct BF16Pairs {
  F16 first, second;
};

HYDRANT_INLINE BF16Pairs LoadPairs(const void* from) {
  const I16 pairs = LoadI(from);
  return {AsF(ShiftLeft<16>(pairs)), AsF(pairs & SetI(static_cast<int32_t>(0xffff0000)))};
}
HYDRANT_INLINE BF16Pairs BroadcastPair(const void* from) {
  const float* pair = static_cast<const float*>(from);
  return {SetF(pair[0]), SetF(pair[1])};
}
HYDRANT_INLINE BF16Pairs FirstOnly(BF16Pairs v) { return {v.first, ZeroF()}; }
HYDRANT_INLINE F16 DotPairs(BF16Pairs a, BF16Pairs b, F16 sum) {
  return Fma(a.second, b.second, Fma(a.first, b.first, sum));
}
HYDRANT_INLINE void StoreNarrow(NarrowF* to, F16 v) { StoreF(to, AsF(RoundBF16(v))); }

#endif

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_BF16_PAIRS_H_
