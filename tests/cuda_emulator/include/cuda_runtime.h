// CUDA C++ as a host compiler sees it under the emulator: the part of the language and of the
// runtime API that kernels/cuda/ uses. This folder comes before the toolkit's, so that the same .cu
// files build with g++ (see ../emulator.h) or with nvcc.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_

#include <math.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/include/cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (::cuda_emulator::ThreadIndex())
#define blockIdx (::cuda_emulator::BlockIndex())
#define blockDim (::cuda_emulator::BlockSize())
#define gridDim (::cuda_emulator::GridSize())

// kernels/cuda/platform.h has their twins for nvcc.
#define HYDRANT_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)      \
  ::cuda_emulator::Launch(#kernel, dim3(grid), dim3(block), (shared_bytes), \
                          [=] { kernel(__VA_ARGS__); })
#define HYDRANT_SHARED(type, name, count)                             \
  type* const name = static_cast<type*>(::cuda_emulator::SharedArray( \
      ::cuda_emulator::SiteTag<decltype([] {})>(), sizeof(type) * (count)))
#define HYDRANT_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::cuda_emulator::DynamicShared())

inline void __syncthreads(::cuda_emulator::Site site = ::cuda_emulator::Site::Here()) {
  ::cuda_emulator::BlockBarrier(site);
}
inline void __syncwarp(unsigned mask = ~0u,
                       ::cuda_emulator::Site site = ::cuda_emulator::Site::Here()) {
  ::cuda_emulator::WarpBarrier(mask, site);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              ::cuda_emulator::Site site = ::cuda_emulator::Site::Here()) {
  const int own = ::cuda_emulator::Lane();
  T result;
  ::cuda_emulator::Exchange(mask, &value, sizeof(T), (own & ~(width - 1)) | (lane & (width - 1)),
                            &result, site);
  return result;
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  ::cuda_emulator::Site site = ::cuda_emulator::Site::Here()) {
  const int own = ::cuda_emulator::Lane();
  const int from = own ^ lanes;
  T result;
  ::cuda_emulator::Exchange(mask, &value, sizeof(T), from / width <= own / width ? from : own,
                            &result, site);
  return result;
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 ::cuda_emulator::Site site = ::cuda_emulator::Site::Here()) {
  const int own = ::cuda_emulator::Lane();
  const bool inside = (own & (width - 1)) >= static_cast<int>(by);
  T result;
  ::cuda_emulator::Exchange(mask, &value, sizeof(T), inside ? own - static_cast<int>(by) : own,
                            &result, site);
  return result;
}

namespace cuda_emulator {

// What shuffles by xor of 16, 8, 4, 2 and 1 make of each lane's values, in one exchange.
template <int kCount, typename Op>
void WarpReduce(float (&values)[kCount], const Op& op, Site site = Site::Here()) {
  WarpReduceAll(
      values, kCount, [](float a, float b) { return Op()(a, b); }, site);
}

// The same of shuffles by xor of 1 and 2.
template <int kCount, typename Op>
void QuadReduce(float (&values)[kCount], const Op& op, Site site = Site::Here()) {
  QuadReduceAll(
      values, kCount, [](float a, float b) { return Op()(a, b); }, site);
}

}  // namespace cuda_emulator

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline int __float2int_rn(float value) { return static_cast<int>(nearbyintf(value)); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) {
    c += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  }
  return c;
}
inline int atomicAdd(int* address, int value) { return ::cuda_emulator::AtomicAdd(address, value); }

using std::max;
using std::min;

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_CUDA_RUNTIME_H_
