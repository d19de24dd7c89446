// Launches of the kernels in fault_kernels.cu; pointers are device memory.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_FAULT_KERNELS_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_FAULT_KERNELS_H_

namespace cuda_emulator {

enum class Fault { kNone, kMissingBarrier, kDivergentBarrier, kTwoBarriers };

void RunSum(const float* x, float* out, Fault fault);  // of 64 numbers
void RunWarpSum(const float* x, float* out, unsigned mask, bool half);
void RunWarpExchange(const float* x, float* out, bool synchronise);
void RunIndex(const float* x, float* out, int shared_index, int device_index);
void RunUnwritten(float* out);
void RunScore(const float* x, float* scores, int blocks, bool shared_score);
void RunCount(int* count, int blocks);
void RunAsyncCopy(const float* x, float* out, bool wait);  // of 256 numbers

}  // namespace cuda_emulator

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_FAULT_KERNELS_H_
