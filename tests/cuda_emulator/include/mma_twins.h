// What the PTX instructions behind kernels/cuda/mma.h do, as the PTX ISA describes it.

#ifndef HYDRANT_TESTS_CUDA_EMULATOR_MMA_TWINS_H_
#define HYDRANT_TESTS_CUDA_EMULATOR_MMA_TWINS_H_

#include <cstdint>

#include "tests/cuda_emulator/emulator.h"

namespace cuda_emulator {

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: c += a b, of which a sum is rounded once.
void MmaBF16(float c[4], const uint32_t a[4], const uint32_t b[2], Site site = Site::Here());
// mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
void MmaInt8(int32_t c[4], const uint32_t a[4], const uint32_t b[2], Site site = Site::Here());
// ldmatrix.sync.aligned.m8n8.x4(.trans).shared.b16: lane i names row i % 8 of matrix i / 8.
void LoadMatrices(uint32_t r[4], const void* row, bool transposed, Site site = Site::Here());
// cp.async.cg.shared.global of 16 bytes, zeros unless they exist: what is at `to` is unspecified
// until CopyAsyncWait.
void CopyAsync16(void* to, const void* from, bool exists, Site site = Site::Here());
// cp.async.commit_group and cp.async.wait_group `newer`: all but the `newer` last groups of this
// thread are there.
void CopyAsyncCommit();
void CopyAsyncWait(int newer);

}  // namespace cuda_emulator

#endif  // HYDRANT_TESTS_CUDA_EMULATOR_MMA_TWINS_H_
