// What WeightDType::kInt8, kInt4 and the quantised dtypes of the KV cache mean, number by number.
// Every backend must arrive at these values and scales, bit for bit; its own vector code may
// compute them in any way that does.
//
// In a linear layer of int8 both sides of x W^T, each row of x and each row of W, are
//   1. rotated: the row is cut into blocks of HadamardBlock(cols) and each block is multiplied by
//      the orthonormal Hadamard matrix (Sylvester's order). Outliers spread over the block, and
//      since the matrix is orthogonal and symmetric, the dot product of two rotated rows is that of
//      the rows themselves;
//   2. quantised: symmetric int8 with one scale for the whole row.
// The dot product is then exact in int32 (cols <= kMaxInt8Cols) and
//   y = (float(sum) * x_scale) * w_scale.
// Rotation before quantising: QuaRot, Ashkboos et al. 2024.
//
// In a linear layer of int4 each row of both sides is cut into groups of kInt4Group columns (the
// last may have fewer). Of the weights each group has a range, and a weight is
//   zero + level * scale, level in [0, 15], zero and scale f16.
// Of the activations each group is quantised by QuantizeInt8 with a scale of its own. With a
// group's int32 sums, dot of levels times activations and total of the activations, y is the end
// of this chain over the groups in ascending order, from 0, where fma rounds once:
//   y = fma(x_scale * scale, float(dot), y)
//   y = fma(zero, x_scale * float(total), y)

#ifndef HYDRANT_KERNELS_QUANTIZATION_H_
#define HYDRANT_KERNELS_QUANTIZATION_H_

#include <cstdint>

#include "kernels/group_range.h"

namespace hydrant::kernels {

// The longest row whose products sum up in int32: 127 * 127 * cols < 2^31.
inline constexpr int64_t kMaxInt8Cols = 133'143;

// A row whose largest magnitude is below this counts as zero: its inverse scale would overflow.
inline constexpr float kSmallestInt8AbsMax = 1e-30f;

// Columns of a group of int4 weights, those of ggml's Q4_0, Q4_1 and Q4_K.
inline constexpr int64_t kInt4Group = 32;

inline constexpr int64_t Int4Groups(int64_t cols) { return (cols + kInt4Group - 1) / kInt4Group; }

// Of a group of int4 weights; both f16, and finite.
struct Int4Range {
  uint16_t scale = 0;
  uint16_t zero = 0;
};

// The largest power of two that divides `cols` and is at most 64. 1: no rotation.
int64_t HadamardBlock(int64_t cols);

// What a rotation by blocks of this size multiplies each value with: 1 / sqrt(block), rounded to
// f32.
float HadamardNormalise(int64_t block);

// Rotates row[cols] in place. Within a block, for stride h = 1, 2, 4, ... < block:
// (a, b) = (a + b, a - b) for each pair (i, i + h); then each value times HadamardNormalise(block).
// All arithmetic is f32, in this order.
void HadamardRotate(float* row, int64_t cols);

// values[i] = row[i] * (127 / absmax), rounded half to even, within [-127, 127]; returns the scale
// absmax / 127, so that row[i] is about values[i] * scale. A row of zeros gives zeros and scale 0.
// Rows are finite; others give some values and scale, without a fault.
float QuantizeInt8(const float* row, int64_t cols, int8_t* values);

// Quantises row[cols] in groups of `group` numbers (the last may have fewer), each between its own
// smallest and largest (MakeGroupRange): ranges[i] of group i, and levels[cols] in [0, 2^bits - 1],
// bits <= 8, with level = (number - zero) * (1 / scale), rounded half to even; 0 where the scale is
// below kSmallestInt8AbsMax. Rows are finite; others give some levels and ranges, without a fault.
void QuantizeGroups(const float* row, int64_t cols, int64_t group, int bits, uint8_t* levels,
                    GroupRange* ranges);

// Quantises a row of weights for int4: levels[cols] in [0, 15], and the ranges of its Int4Groups.
// Each group lies between its smallest and largest weight. false: a weight is not finite, or too
// large for f16; the levels are within [0, 15] even then.
bool QuantizeInt4(const float* row, int64_t cols, uint8_t* levels, Int4Range* ranges);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_QUANTIZATION_H_
