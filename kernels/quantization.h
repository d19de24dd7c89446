// What WeightDType::kInt8 means, number by number. Every backend must arrive at these int8 values
// and scales, bit for bit; its own vector code may compute them in any way that does.
//
// Both sides of x W^T, each row of x and each row of W, are
//   1. rotated: the row is cut into blocks of HadamardBlock(cols) and each block is multiplied by
//      the orthonormal Hadamard matrix (Sylvester's order). Outliers spread over the block, and
//      since the matrix is orthogonal and symmetric, the dot product of two rotated rows is that of
//      the rows themselves;
//   2. quantised: symmetric int8 with one scale for the whole row.
// The dot product is then exact in int32 (cols <= kMaxInt8Cols) and
//   y = (float(sum) * x_scale) * w_scale.
// Rotation before quantising: QuaRot, Ashkboos et al. 2024.

#ifndef HYDRANT_KERNELS_QUANTIZATION_H_
#define HYDRANT_KERNELS_QUANTIZATION_H_

#include <cstdint>

namespace hydrant::kernels {

// The longest row whose products sum up in int32: 127 * 127 * cols < 2^31.
inline constexpr int64_t kMaxInt8Cols = 133'143;

// A row whose largest magnitude is below this counts as zero: its inverse scale would overflow.
inline constexpr float kSmallestInt8AbsMax = 1e-30f;

// The largest power of two that divides `cols` and is at most 64. 1: no rotation.
int64_t HadamardBlock(int64_t cols);

// Rotates row[cols] in place. Within a block, for stride h = 1, 2, 4, ... < block:
// (a, b) = (a + b, a - b) for each pair (i, i + h); then each value times 1 / sqrt(block), which is
// rounded to f32. All arithmetic is f32, in this order.
void HadamardRotate(float* row, int64_t cols);

// values[i] = row[i] * (127 / absmax), rounded half to even, within [-127, 127]; returns the scale
// absmax / 127, so that row[i] is about values[i] * scale. A row of zeros gives zeros and scale 0.
// Rows are finite; others give some values and scale, without a fault.
float QuantizeInt8(const float* row, int64_t cols, int8_t* values);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_QUANTIZATION_H_
