// Rows of weights as files store them, to f32. Each function reads `n` values from `in` (any
// alignment, little-endian) and writes out[0, n). Block formats are ggml's (ggml-common.h): `n` is
// a multiple of 32, and one block of 32 values is
//   Q8_0: f16 d; int8 q[32]             value[i] = d * q[i]
//   Q4_0: f16 d; uint8 q[16]            value[i] = d * (nibble[i] - 8)
//   Q4_1: f16 d; f16 m; uint8 q[16]     value[i] = d * nibble[i] + m
// where nibble[i] is the low half of q[i] for i < 16 and the high half of q[i - 16] otherwise.

#ifndef HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_
#define HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_

#include <cstdint>

namespace hydrant::engine::weights {

using DequantizeRow = void (*)(const uint8_t* in, int64_t n, float* out);

void DequantizeF32(const uint8_t* in, int64_t n, float* out);
void DequantizeF16(const uint8_t* in, int64_t n, float* out);
void DequantizeBf16(const uint8_t* in, int64_t n, float* out);
void DequantizeQ8_0(const uint8_t* in, int64_t n, float* out);
void DequantizeQ4_0(const uint8_t* in, int64_t n, float* out);
void DequantizeQ4_1(const uint8_t* in, int64_t n, float* out);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_DEQUANTIZE_H_
