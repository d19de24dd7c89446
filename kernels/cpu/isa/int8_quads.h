// Exact dot products over four neighbouring int8: lane i of the sum grows by the four products of
// weights and activations. How weights are stored differs: AVX512-VNNI multiplies unsigned with
// signed bytes, so they carry an offset of 128 there (sign bit flipped), which FinishInt8 takes
// off.

#ifndef HYDRANT_KERNELS_CPU_ISA_INT8_QUADS_H_
#define HYDRANT_KERNELS_CPU_ISA_INT8_QUADS_H_

#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

#if defined(__AVX512VNNI__)

inline constexpr uint8_t kInt8Flip = 0x80;

HYDRANT_INLINE I16 DotQuads(I16 w, I16 x, I16 sum) {
  // As assembly, since g++ 12 spills the accumulators around the intrinsic.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.part[0]) : "v"(w.part[0]), "v"(x.part[0]));
  return sum;
}

#elif defined(__AVX2__)

inline constexpr uint8_t kInt8Flip = 0;

HYDRANT_INLINE I16 DotQuads(I16 w, I16 x, I16 sum) {
  HYDRANT_EACH_PART {
    // |x| * (w with the sign of x): two such products are at most 2 * 127 * 127 and fit in int16.
    const __m256i wv = (__m256i)w.part[i], xv = (__m256i)x.part[i];
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(xv), _mm256_sign_epi8(wv, xv));
    sum.part[i] += (PartI)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  return sum;
}

#else

inline constexpr uint8_t kInt8Flip = 0;

HYDRANT_INLINE I16 DotQuads(I16 w, I16 x, I16 sum) {
  HYDRANT_EACH_PART {
    // Even and odd bytes as int16; the sum of two products fits there.
    const PartI16 wv = (PartI16)w.part[i], xv = (PartI16)x.part[i];
    const PartI pairs = (PartI)(((wv << 8) >> 8) * ((xv << 8) >> 8) + (wv >> 8) * (xv >> 8));
    sum.part[i] += ((pairs << 16) >> 16) + (pairs >> 16);
  }
  return sum;
}

#endif

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_INT8_QUADS_H_
