// Sums of softmax weights, and what is multiplied with them: how attention's pieces are put
// together.

#ifndef HYDRANT_KERNELS_CUDA_WEIGHTED_SUM_H_
#define HYDRANT_KERNELS_CUDA_WEIGHTED_SUM_H_

#include <cstdint>

#include "kernels/cuda/platform.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// 2^n for a whole number n <= 0; 0 below the normal numbers.
__device__ inline float PowerOf2(float n) {
  return n < -126.0f ? 0.0f
                     : __uint_as_float(static_cast<uint32_t>(static_cast<int>(n) + 127) << 23);
}

// weight / sum, rounded once: 1 where they are equal. inverse = 1 / sum.
__device__ inline float Share(float weight, float sum, float inverse) {
  const float quotient = weight * inverse;
  return fmaf(fmaf(-quotient, sum, weight), inverse, quotient);
}

// What weighted values are to be multiplied with, own and added ones, when their sums are.
struct Factors {
  float own, added;
};

// Weights divided by 2^exponent; an exponent of -infinity: none, and values that go with it are 0.
struct SumOfWeights {
  float exponent = -INFINITY;
  float sum = 0.0f;

  // Gives what weighted values are to be multiplied with too.
  __device__ float RaiseTo(float to_exponent) {
    if (!(to_exponent > exponent)) return 1.0f;
    const float factor = exponent == -INFINITY ? 0.0f : PowerOf2(exponent - to_exponent);
    exponent = to_exponent;
    sum *= factor;
    return factor;
  }
  __device__ Factors Add(const SumOfWeights& other) {
    if (other.exponent == -INFINITY) return {1.0f, 0.0f};
    const float own = RaiseTo(other.exponent);
    const float added = PowerOf2(other.exponent - exponent);
    sum += other.sum * added;
    return {own, added};
  }
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_WEIGHTED_SUM_H_
