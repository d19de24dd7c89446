// The few words that nvcc and the emulator of tests/cuda_emulator say differently. Kernels are
// written to run under both: launches through HYDRANT_LAUNCH, shared arrays through HYDRANT_SHARED,
// warp operations by whole warps, PTX behind mma.h.

#ifndef HYDRANT_KERNELS_CUDA_PLATFORM_H_
#define HYDRANT_KERNELS_CUDA_PLATFORM_H_

#include <cuda_runtime.h>

#include "kernels/cuda/namespace.h"

#ifdef __CUDACC__

#define HYDRANT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define HYDRANT_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define HYDRANT_DYNAMIC_SHARED(type, name)                       \
  extern __shared__ __align__(128) unsigned char name##_bytes[]; \
  type* const name = reinterpret_cast<type*>(name##_bytes)

#endif  // __CUDACC__

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kWarpSize = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_PLATFORM_H_
