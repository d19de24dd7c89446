// Rows of weights as files store them, to f32. Each function reads `n` values from `in` (any
// alignment, little-endian) and writes out[0, n). The block formats are ggml's (ggml-common.h, and
// the layouts as gguf-py's quants.py unpacks them); `n` is a whole number of blocks. Products and
// sums are f32 in the order written; every product is exact in f32, so that the value is the one
// the format defines, rounded once.
//
// Blocks of 32 values, where nibble[i] is the low half of q[i] for i < 16 and the high half of
// q[i - 16] otherwise, and bit[i] is bit i of the 32 bits h:
//   Q8_0: f16 d; int8 q[32]                   value[i] = d * q[i]
//   Q4_0: f16 d; uint8 q[16]                  value[i] = d * (nibble[i] - 8)
//   Q4_1: f16 d; f16 m; uint8 q[16]           value[i] = d * nibble[i] + m
//   Q5_0: f16 d; uint32 h; uint8 q[16]        value[i] = d * ((nibble[i] | bit[i] << 4) - 16)
//   Q5_1: f16 d; f16 m; uint32 h; uint8 q[16] value[i] = d * (nibble[i] | bit[i] << 4) + m
//   IQ4_NL: f16 d; uint8 q[16]                value[i] = d * kIq4Levels[nibble[i]]
// Blocks of 256 values, in groups of 32 (Q4_K, Q5_K, IQ4_XS) or 16 (Q2_K, Q3_K, Q6_K) that have a
// scale each: dequantize_k.cc.

#ifndef HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_
#define HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_

#include <cstdint>

#include "kernels/quantization.h"

namespace hydrant::engine::weights {

using DequantizeRow = void (*)(const uint8_t* in, int64_t n, float* out);

// The levels of IQ4_NL and IQ4_XS (kvalues_iq4nl in ggml-common.h).
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

void DequantizeF32(const uint8_t* in, int64_t n, float* out);
void DequantizeF16(const uint8_t* in, int64_t n, float* out);
void DequantizeBf16(const uint8_t* in, int64_t n, float* out);

void DequantizeQ8_0(const uint8_t* in, int64_t n, float* out);
void DequantizeQ4_0(const uint8_t* in, int64_t n, float* out);
void DequantizeQ4_1(const uint8_t* in, int64_t n, float* out);
void DequantizeQ5_0(const uint8_t* in, int64_t n, float* out);
void DequantizeQ5_1(const uint8_t* in, int64_t n, float* out);
void DequantizeIq4Nl(const uint8_t* in, int64_t n, float* out);

void DequantizeQ2K(const uint8_t* in, int64_t n, float* out);
void DequantizeQ3K(const uint8_t* in, int64_t n, float* out);
void DequantizeQ4K(const uint8_t* in, int64_t n, float* out);
void DequantizeQ5K(const uint8_t* in, int64_t n, float* out);
void DequantizeQ6K(const uint8_t* in, int64_t n, float* out);
void DequantizeIq4Xs(const uint8_t* in, int64_t n, float* out);

// Of the types whose numbers are those of int4 as they are (kernels/quantization.h): the levels of
// n values, and the range of each 32. Q4_K's scale d * s6 and zero -m * m6 are rounded to f16; the
// others are exact. A range that f16 cannot hold comes out infinite.
using ReadInt4Groups = void (*)(const uint8_t* in, int64_t n, uint8_t* levels,
                                kernels::Int4Range* ranges);

void ReadGroupsQ4_0(const uint8_t* in, int64_t n, uint8_t* levels, kernels::Int4Range* ranges);
void ReadGroupsQ4_1(const uint8_t* in, int64_t n, uint8_t* levels, kernels::Int4Range* ranges);
void ReadGroupsQ4K(const uint8_t* in, int64_t n, uint8_t* levels, kernels::Int4Range* ranges);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_
