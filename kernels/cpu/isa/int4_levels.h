// Exact dot products of levels from 0 to 15 with int8, over the columns of one group: lane i grows
// by the four products of its levels and four activations. Levels are unsigned, as the instructions
// want their first factor. Without VNNI a lane holds two 16-bit sums until the group's end: each is
// at most 8 * 2 * 15 * 127 = 30,480.

#ifndef HYDRANT_KERNELS_CPU_ISA_INT4_LEVELS_H_
#define HYDRANT_KERNELS_CPU_ISA_INT4_LEVELS_H_

#include "kernels/cpu/isa/simd.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

// The levels of a word's first four columns, and of its last.
HYDRANT_INLINE I16 LowLevels(I16 words) { return words & SetI(0x0f0f0f0f); }
HYDRANT_INLINE I16 HighLevels(I16 words) { return ShiftRightLogical<4>(words) & SetI(0x0f0f0f0f); }

// x: four int8, the same for every lane.
HYDRANT_INLINE I16 DotLevels(I16 levels, const uint8_t* x, I16 sum) {
#if defined(__AVX512VNNI__)
  // As assembly, since g++ 12 spills the accumulators around the intrinsic.
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.part[0])
      : "v"(levels.part[0]), "m"(*reinterpret_cast<const LooseWord*>(x)));
  return sum;
#elif defined(__AVX2__)
  const I16 value = BroadcastWord(x);
  HYDRANT_EACH_PART {
    sum.part[i] =
        (PartI)((PartI16)sum.part[i] +
                (PartI16)_mm256_maddubs_epi16((__m256i)levels.part[i], (__m256i)value.part[i]));
  }
  return sum;
#else
  const I16 value = BroadcastWord(x);
  HYDRANT_EACH_PART {
    // Even and odd bytes as int16.
    const PartI16 wv = (PartI16)levels.part[i], xv = (PartI16)value.part[i];
    sum.part[i] =
        (PartI)((PartI16)sum.part[i] + (wv & 0xff) * ((xv << 8) >> 8) + (wv >> 8) * (xv >> 8));
  }
  return sum;
#endif
}

// What DotLevels has summed up, as int32.
HYDRANT_INLINE I16 LevelSum(I16 sum) {
#if defined(__AVX512VNNI__)
  return sum;
#else
  I16 r;
  HYDRANT_EACH_PART r.part[i] = ((sum.part[i] << 16) >> 16) + (sum.part[i] >> 16);
  return r;
#endif
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_INT4_LEVELS_H_
