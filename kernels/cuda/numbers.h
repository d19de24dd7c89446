// Number formats on the device. bfloat16.h, group_range.h and quantization.h say what they mean;
// these are the same, for one warp at a time.

#ifndef HYDRANT_KERNELS_CUDA_NUMBERS_H_
#define HYDRANT_KERNELS_CUDA_NUMBERS_H_

#include <cstdint>

#include "kernels/cuda/platform.h"
#include "kernels/cuda/reduce.h"
#include "kernels/group_range.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

__device__ inline uint16_t FloatToBF16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
__device__ inline float BF16ToFloat(uint16_t value) {
  return __uint_as_float(static_cast<uint32_t>(value) << 16);
}
__device__ inline float RoundToBF16(float value) { return BF16ToFloat(FloatToBF16(value)); }

// HadamardRotate of row[cols] in shared memory by the lanes of a warp; block 1: nothing.
__device__ inline void RotateRow(float* row, int cols, int block, float normalise) {
  if (block == 1) return;
  const int lane = threadIdx.x % kWarpSize;
  for (int stride = 1; stride < block; stride *= 2) {
    for (int pair = lane; pair < cols / 2; pair += kWarpSize) {
      const int i = pair / stride * 2 * stride + pair % stride;
      const float a = row[i], b = row[i + stride];
      row[i] = a + b;
      row[i + stride] = a - b;
    }
    __syncwarp(kWholeWarp);
  }
  for (int i = lane; i < cols; i += kWarpSize) row[i] *= normalise;
  __syncwarp(kWholeWarp);
}

// The scale with which 127 stands for absmax, and its inverse; both 0 for a row of zeros.
struct Int8Scale {
  float scale, inverse;
};
__device__ inline Int8Scale MakeInt8Scale(float absmax) {
  constexpr float kSmallest = 1e-30f;  // kSmallestInt8AbsMax
  if (absmax < kSmallest) return {0.0f, 0.0f};
  return {absmax / 127.0f, 127.0f / absmax};
}
__device__ inline int8_t ToInt8(float value, const Int8Scale& scale) {
  const float rounded = rintf(value * scale.inverse);
  return static_cast<int8_t>(rounded > -127.0f ? fminf(rounded, 127.0f) : -127.0f);
}

__device__ inline float WarpAbsMax(const float* row, int cols) {
  float largest = 0.0f;
  for (int i = threadIdx.x % kWarpSize; i < cols; i += kWarpSize) {
    largest = fmaxf(largest, fabsf(row[i]));
  }
  return WarpMax(largest);
}

__device__ inline uint8_t ToLevel(float value, const GroupRange& range, float max_level) {
  constexpr float kSmallest = 1e-30f;  // kSmallestInt8AbsMax
  const float scale = RangeNumber(range.scale);
  const float inverse = scale >= kSmallest ? 1.0f / scale : 0.0f;
  const float level = rintf((value - RangeNumber(range.zero)) * inverse);
  return static_cast<uint8_t>(level > 0.0f ? fminf(level, max_level) : 0.0f);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_NUMBERS_H_
