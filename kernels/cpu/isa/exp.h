// Exponentials.

#ifndef HYDRANT_KERNELS_CPU_ISA_EXP_H_
#define HYDRANT_KERNELS_CPU_ISA_EXP_H_

#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr float kLog2E = 1.44269504088896341f;

// e^x to about one unit in the last place; 0 below -87, at -inf too.
HYDRANT_INLINE F16 Exp(F16 x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts (Cody and Waite). The polynomial is
  // that of Cephes' expf.
#if defined(__AVX512F__)
  // What vanishes need not be a number until the end.
  const F16 bounded = Min(SetF(88.0f), x);
#else
  const I16 vanishes = x < SetF(-87.0f);
  const F16 bounded = Select(vanishes, ZeroF(), Select(SetF(88.0f) < x, SetF(88.0f), x));
#endif
  const F16 n = RoundSmall(bounded * SetF(kLog2E));
  F16 r = Fma(n, SetF(-0.693359375f), bounded);
  r = Fma(n, SetF(2.12194440e-4f), r);
  F16 p = SetF(1.9875691500e-4f);
  p = Fma(p, r, SetF(1.3981999507e-3f));
  p = Fma(p, r, SetF(8.3334519073e-3f));
  p = Fma(p, r, SetF(4.1665795894e-2f));
  p = Fma(p, r, SetF(1.6666665459e-1f));
  p = Fma(p, r, SetF(5.0000001201e-1f));
  p = Fma(p, r * r, r) + SetF(1.0f);
#if defined(__AVX512F__)
  const __mmask16 stays =
      _mm512_cmp_ps_mask((__m512)x.part[0], _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
  return {{(PartF)_mm512_maskz_scalef_ps(stays, (__m512)p.part[0], (__m512)n.part[0])}};
#else
  const F16 power = AsF(ShiftLeft<23>(ToInt(n) + SetI(127)));
  return Select(vanishes, ZeroF(), p * power);
#endif
}

#if defined(__AVX512F__)
// 2^x to 3e-7 of itself, 0 at -inf. The polynomial has the least maximum of the relative error over
// [0, 1].
HYDRANT_INLINE F16 Exp2(F16 x) {
  constexpr auto kAll = static_cast<__mmask16>(-1);
  const auto power = (__m512)x.part[0];
  // What x is above the next integer below, and that integer is the part of it that scalef takes.
  constexpr int kFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const F16 f = {{(PartF)_mm512_maskz_reduce_ps(kAll, power, kFloor)}};
  F16 p = SetF(1.877576673e-03f);
  p = Fma(p, f, SetF(8.989340096e-03f));
  p = Fma(p, f, SetF(5.582631805e-02f));
  p = Fma(p, f, SetF(2.401536170e-01f));
  p = Fma(p, f, SetF(6.931530732e-01f));
  p = Fma(p, f, SetF(9.999999251e-01f));
  return {{(PartF)_mm512_maskz_scalef_ps(kAll, (__m512)p.part[0], power)}};
}
#endif

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_EXP_H_
