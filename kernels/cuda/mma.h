// Tensor core, conversion, exponential and asynchronous copy instructions (sm_80 and later). The
// emulator has a twin of each (tests/cuda_emulator/twins.cc).
//
// A warp multiplies A, 16 rows of 32 bytes, by B, 8 columns of 32 bytes: 16 bf16 or 32 int8 numbers
// each. With g = lane / 4 and t = lane % 4, a lane holds
//   a  words t and t + 4 of rows g and g + 8: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
//   b  words t and t + 4 of column g
//   c  (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)

#ifndef HYDRANT_KERNELS_CUDA_MMA_H_
#define HYDRANT_KERNELS_CUDA_MMA_H_

#include <cstdint>

#include "kernels/cuda/platform.h"

#ifndef __CUDACC__
#include <mma_twins.h>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#endif

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

#ifdef __CUDACC__

__device__ __forceinline__ void Mma(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void Mma(int32_t c[4], const uint32_t a[4], const uint32_t b[2]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ float F16ToFloat(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}

// Two numbers rounded to bf16, the first low.
__device__ __forceinline__ uint32_t PackBF16(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// 2^x to within 2^-22 of itself; 0 below the normal numbers.
__device__ __forceinline__ float Exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

__device__ __forceinline__ uint32_t SharedAddress(const void* memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(memory));
}

template <bool kTransposed>
__device__ __forceinline__ void LoadMatrices(uint32_t r[4], const void* row) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(SharedAddress(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(SharedAddress(row))
                 : "memory");
  }
}

// Zeros in place of what is at `from` where that does not exist.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, bool exists = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kNewer>
__device__ __forceinline__ void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewer) : "memory");
}

#else

inline void Mma(float c[4], const uint32_t a[4], const uint32_t b[2]) {
  ::cuda_emulator::MmaBF16(c, a, b);
}
inline void Mma(int32_t c[4], const uint32_t a[4], const uint32_t b[2]) {
  ::cuda_emulator::MmaInt8(c, a, b);
}
inline uint32_t PackBF16(float first, float second) {
  return static_cast<uint32_t>(::hydrant::kernels::FloatToBF16(second)) << 16 |
         ::hydrant::kernels::FloatToBF16(first);
}
inline float Exp2(float x) { return exp2f(x); }
template <bool kTransposed>
inline void LoadMatrices(uint32_t r[4], const void* row) {
  ::cuda_emulator::LoadMatrices(r, row, kTransposed);
}
inline void CopyAsync16(void* to, const void* from, bool exists = true) {
  ::cuda_emulator::CopyAsync16(to, from, exists);
}
inline void CopyAsyncCommit() { ::cuda_emulator::CopyAsyncCommit(); }
template <int kNewer>
inline void CopyAsyncWait() {
  ::cuda_emulator::CopyAsyncWait(kNewer);
}

#endif  // __CUDACC__

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_MMA_H_
