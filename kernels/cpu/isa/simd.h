// Sixteen lanes of f32 or i32 on every instruction set: one 512-bit register, two of 256 bits or
// four of 128. Kernels are written once on these types; the files that include this header are
// compiled once per instruction set, each into a namespace of its own (HYDRANT_ISA).
//
// Nothing here may have external linkage, and no standard header with templates or inline functions
// may be included: the linker keeps one copy of such a function for the whole program, and it could
// be the one with instructions that this machine lacks.

#ifndef HYDRANT_KERNELS_CPU_ISA_SIMD_H_
#define HYDRANT_KERNELS_CPU_ISA_SIMD_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define HYDRANT_INLINE static inline __attribute__((always_inline))
#define HYDRANT_UNROLL _Pragma("GCC unroll 64")

namespace hydrant::kernels::cpu::HYDRANT_ISA {

#if defined(__AVX512F__)
inline constexpr int kParts = 1;
#elif defined(__AVX2__)
inline constexpr int kParts = 2;
#else
inline constexpr int kParts = 4;
#endif
inline constexpr int kLanes = 16;
inline constexpr int kPartLanes = kLanes / kParts;
inline constexpr int kPartBytes = 4 * kPartLanes;

typedef float PartF __attribute__((vector_size(kPartBytes)));
typedef int32_t PartI __attribute__((vector_size(kPartBytes)));
typedef uint32_t PartU __attribute__((vector_size(kPartBytes)));
typedef int16_t PartI16 __attribute__((vector_size(kPartBytes)));
typedef int8_t HalfOfHalfI8 __attribute__((vector_size(kPartLanes)));
typedef uint16_t HalfU16 __attribute__((vector_size(2 * kPartLanes)));
typedef float LoosePartF __attribute__((vector_size(kPartBytes), aligned(1), may_alias));
typedef int32_t LoosePartI __attribute__((vector_size(kPartBytes), aligned(1), may_alias));
typedef int8_t LooseI8 __attribute__((vector_size(kPartLanes), aligned(1), may_alias));
typedef uint16_t LooseU16 __attribute__((vector_size(2 * kPartLanes), aligned(1), may_alias));
typedef uint32_t LooseWord __attribute__((aligned(1), may_alias));
typedef float LooseFloat __attribute__((aligned(1), may_alias));

struct F16 {
  PartF part[kParts];
};
struct I16 {
  PartI part[kParts];
};

#define HYDRANT_EACH_PART HYDRANT_UNROLL for (int i = 0; i < kParts; ++i)

HYDRANT_INLINE F16 SetF(float value) {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = value - (PartF){};
  return r;
}
HYDRANT_INLINE F16 ZeroF() {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = (PartF){};
  return r;
}
HYDRANT_INLINE I16 SetI(int32_t value) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = value - (PartI){};
  return r;
}
HYDRANT_INLINE I16 ZeroI() { return SetI(0); }
HYDRANT_INLINE I16 LaneIndex() {
  I16 r;
  HYDRANT_EACH_PART {
    HYDRANT_UNROLL for (int j = 0; j < kPartLanes; ++j) r.part[i][j] = i * kPartLanes + j;
  }
  return r;
}

HYDRANT_INLINE F16 LoadF(const void* from) {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = static_cast<const LoosePartF*>(from)[i];
  return r;
}
HYDRANT_INLINE void StoreF(void* to, F16 v) {
  HYDRANT_EACH_PART static_cast<LoosePartF*>(to)[i] = v.part[i];
}
HYDRANT_INLINE I16 LoadI(const void* from) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = static_cast<const LoosePartI*>(from)[i];
  return r;
}
HYDRANT_INLINE void StoreI(void* to, I16 v) {
  HYDRANT_EACH_PART static_cast<LoosePartI*>(to)[i] = v.part[i];
}
HYDRANT_INLINE I16 BroadcastWord(const void* from) {
  return SetI(static_cast<int32_t>(*static_cast<const LooseWord*>(from)));
}

HYDRANT_INLINE F16 BroadcastF(const void* from) {
  return SetF(*static_cast<const LooseFloat*>(from));
}

#define HYDRANT_BINARY(type, op)                          \
  HYDRANT_INLINE type operator op(type a, type b) {       \
    type r;                                               \
    HYDRANT_EACH_PART r.part[i] = a.part[i] op b.part[i]; \
    return r;                                             \
  }
HYDRANT_BINARY(F16, +)
HYDRANT_BINARY(F16, -)
HYDRANT_BINARY(F16, *)
HYDRANT_BINARY(F16, /)
HYDRANT_BINARY(I16, +)
HYDRANT_BINARY(I16, -)
HYDRANT_BINARY(I16, &)
HYDRANT_BINARY(I16, |)
HYDRANT_BINARY(I16, ^)
#undef HYDRANT_BINARY

// Comparisons give all ones or zero in each lane.
#define HYDRANT_COMPARE(type, op)                         \
  HYDRANT_INLINE I16 operator op(type a, type b) {        \
    I16 r;                                                \
    HYDRANT_EACH_PART r.part[i] = a.part[i] op b.part[i]; \
    return r;                                             \
  }
HYDRANT_COMPARE(F16, <)
HYDRANT_COMPARE(F16, >)
HYDRANT_COMPARE(F16, ==)
HYDRANT_COMPARE(I16, <)
HYDRANT_COMPARE(I16, >)
#undef HYDRANT_COMPARE

HYDRANT_INLINE F16 Select(I16 mask, F16 yes, F16 no) {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = mask.part[i] ? yes.part[i] : no.part[i];
  return r;
}
HYDRANT_INLINE I16 Select(I16 mask, I16 yes, I16 no) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = mask.part[i] ? yes.part[i] : no.part[i];
  return r;
}
// a where a > b, else b; so b for NaN, as the instructions have it.
HYDRANT_INLINE F16 Max(F16 a, F16 b) {
#if defined(__AVX512F__)
  return {{_mm512_maskz_max_ps(static_cast<__mmask16>(-1), a.part[0], b.part[0])}};
#else
  return Select(b < a, a, b);
#endif
}
// a where a < b, else b.
HYDRANT_INLINE F16 Min(F16 a, F16 b) {
#if defined(__AVX512F__)
  return {{_mm512_maskz_min_ps(static_cast<__mmask16>(-1), a.part[0], b.part[0])}};
#else
  return Select(a < b, a, b);
#endif
}

// Whether any lane of a comparison's result is set.
HYDRANT_INLINE bool Any(I16 mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask.part[0]) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)(mask.part[0] | mask.part[1])) != 0;
#else
  typedef int64_t Words __attribute__((vector_size(kPartBytes)));
  const auto words = (Words)(mask.part[0] | mask.part[1] | mask.part[2] | mask.part[3]);
  return (words[0] | words[1]) != 0;
#endif
}

template <int kBits>
HYDRANT_INLINE I16 ShiftLeft(I16 v) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = v.part[i] << kBits;
  return r;
}
// Arithmetic: copies of the sign come in.
HYDRANT_INLINE I16 ShiftRight(I16 v, int bits) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = v.part[i] >> bits;
  return r;
}
template <int kBits>
HYDRANT_INLINE I16 ShiftRightLogical(I16 v) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = (PartI)((PartU)v.part[i] >> kBits);
  return r;
}

HYDRANT_INLINE F16 AsF(I16 v) {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = (PartF)v.part[i];
  return r;
}
HYDRANT_INLINE I16 AsI(F16 v) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = (PartI)v.part[i];
  return r;
}
HYDRANT_INLINE F16 ToFloat(I16 v) {
  F16 r;
  HYDRANT_EACH_PART r.part[i] = __builtin_convertvector(v.part[i], PartF);
  return r;
}
// Truncates; lanes are within the range of int32.
HYDRANT_INLINE I16 ToInt(F16 v) {
  I16 r;
  HYDRANT_EACH_PART r.part[i] = __builtin_convertvector(v.part[i], PartI);
  return r;
}
HYDRANT_INLINE F16 Abs(F16 v) { return AsF(AsI(v) & SetI(0x7fffffff)); }

// Nearest integer, ties to even, for |v| < 2^22.
HYDRANT_INLINE F16 RoundSmall(F16 v) {
  const F16 magic = SetF(12582912.0f);  // 1.5 * 2^23
  return (v + magic) - magic;
}

HYDRANT_INLINE I16 LoadI8(const void* from) {
#if defined(__AVX512F__)
  // Masked by ones: g++ 12 warns about the plain form's undefined source.
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return {{(PartI)_mm512_maskz_cvtepi8_epi32(static_cast<__mmask16>(-1), bytes)}};
#elif defined(__AVX2__)
  I16 r;
  HYDRANT_EACH_PART {
    const void* part = static_cast<const int8_t*>(from) + i * kPartLanes;
    r.part[i] = (PartI)_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(part)));
  }
  return r;
#else
  I16 r;
  HYDRANT_EACH_PART {
    r.part[i] = __builtin_convertvector(static_cast<const LooseI8*>(from)[i], PartI);
  }
  return r;
#endif
}

// Sixteen bf16.
HYDRANT_INLINE F16 LoadBF16(const void* from) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  const auto words = _mm512_maskz_cvtepu16_epi32(static_cast<__mmask16>(-1), halves);
  return AsF(ShiftLeft<16>({{(PartI)words}}));
#else
  I16 words;
  HYDRANT_EACH_PART {
    words.part[i] = __builtin_convertvector(static_cast<const LooseU16*>(from)[i], PartI);
  }
  return AsF(ShiftLeft<16>(words));
#endif
}

// Sixteen f16, all of them finite.
HYDRANT_INLINE F16 LoadFiniteF16(const void* from) {
#if defined(__AVX512F__)
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  return {{(PartF)_mm512_maskz_cvtph_ps(static_cast<__mmask16>(-1), halves)}};
#elif defined(__AVX2__)
  F16 r;
  HYDRANT_EACH_PART {
    r.part[i] = (PartF)_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from) + i));
  }
  return r;
#else
  I16 words;
  HYDRANT_EACH_PART {
    words.part[i] = __builtin_convertvector(static_cast<const LooseU16*>(from)[i], PartI);
  }
  const I16 sign = ShiftLeft<16>(words & SetI(0x8000)), magnitude = words & SetI(0x7fff);
  const I16 normal = ShiftLeft<13>(magnitude) + SetI(0x38000000);
  // A subnormal is mantissa * 2^-24: put below 0.5, and the 0.5 taken away.
  const F16 subnormal = AsF(magnitude | SetI(0x3f000000)) - SetF(0.5f);
  return AsF(Select(magnitude < SetI(0x400), AsI(subnormal), normal) | sign);
#endif
}

// The lower eight bits of each lane.
HYDRANT_INLINE void StoreI8(int8_t* to, I16 v) {
  HYDRANT_EACH_PART {
    *reinterpret_cast<LooseI8*>(to + i * kPartLanes) =
        __builtin_convertvector(v.part[i], HalfOfHalfI8);
  }
}

// a * b + c: fused where the instruction set has it.
HYDRANT_INLINE F16 Fma(F16 a, F16 b, F16 c) {
#if defined(__AVX512F__)
  return {{_mm512_fmadd_ps(a.part[0], b.part[0], c.part[0])}};
#elif defined(__AVX2__)
  F16 r;
  HYDRANT_EACH_PART r.part[i] = _mm256_fmadd_ps(a.part[i], b.part[i], c.part[i]);
  return r;
#else
  return a * b + c;
#endif
}

// a * b + c, rounded once on every instruction set.
HYDRANT_INLINE F16 FusedMultiplyAdd(F16 a, F16 b, F16 c) {
#if defined(__AVX2__)
  return Fma(a, b, c);
#else
  F16 r;
  HYDRANT_EACH_PART {
    HYDRANT_UNROLL for (int j = 0; j < kPartLanes; ++j) {
      r.part[i][j] = __builtin_fmaf(a.part[i][j], b.part[i][j], c.part[i][j]);
    }
  }
  return r;
#endif
}

// The nearest bfloat16, ties to even, in the upper half of each lane; NaN stays NaN.
HYDRANT_INLINE I16 RoundBF16(F16 v) {
  const I16 bits = AsI(v);
  const I16 rounded = bits + SetI(0x7fff) + (ShiftRightLogical<16>(bits) & SetI(1));
  const I16 is_nan = (bits & SetI(0x7fffffff)) > SetI(0x7f800000);
  return Select(is_nan, bits | SetI(0x400000), rounded) & SetI(static_cast<int32_t>(0xffff0000));
}
HYDRANT_INLINE void StoreBF16(uint16_t* to, F16 v) {
#if defined(__AVX512BF16__)
  *reinterpret_cast<__m256i_u*>(to) = (__m256i)_mm512_cvtneps_pbh(v.part[0]);
#else
  const I16 upper = ShiftRightLogical<16>(RoundBF16(v));
  HYDRANT_EACH_PART {
    *reinterpret_cast<LooseU16*>(to + i * kPartLanes) =
        __builtin_convertvector((PartU)upper.part[i], HalfU16);
  }
#endif
}

// Into to[0], to[2], ... to[30]; what lies between is not touched.
HYDRANT_INLINE void StoreEveryOtherBF16(uint16_t* to, F16 v) {
#if defined(__AVX512F__)
  const auto upper = (__m512i)ShiftRightLogical<16>(RoundBF16(v)).part[0];
  _mm512_mask_storeu_epi16(to, 0x55555555, upper);
#else
  uint16_t lanes[kLanes];
  StoreBF16(lanes, v);
  HYDRANT_UNROLL for (int i = 0; i < kLanes; ++i) to[2 * i] = lanes[i];
#endif
}

// The low bytes into to[0], to[4], ... to[60]; what lies between is not touched.
HYDRANT_INLINE void StoreEveryFourthI8(int8_t* to, I16 v) {
#if defined(__AVX512BW__)
  _mm512_mask_storeu_epi8(to, 0x1111111111111111, (__m512i)v.part[0]);
#else
  int8_t lanes[kLanes];
  StoreI8(lanes, v);
  HYDRANT_UNROLL for (int i = 0; i < kLanes; ++i) to[4 * i] = lanes[i];
#endif
}

// Lanes [0, count) of a row's end; the others are 0.
HYDRANT_INLINE F16 LoadPartial(const float* from, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return LoadF(lanes);
}
HYDRANT_INLINE F16 LoadUpTo(const float* from, int64_t count) {
  return count == kLanes ? LoadF(from) : LoadPartial(from, count);
}
HYDRANT_INLINE void StorePartial(float* to, F16 v, int64_t count) {
  float lanes[kLanes];
  StoreF(lanes, v);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_SIMD_H_
