// What the kernels of tiled linear layers share: which element of a tile a thread has, and how it
// is written.

#ifndef HYDRANT_KERNELS_CUDA_LINEAR_TILE_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_TILE_H_

#include "kernels/cuda/linear.h"
#include "kernels/cuda/mma.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kLinearWarps = 4;
constexpr int kLinearThreads = kLinearWarps * kWarpSize;

// Of element i of a lane's four: outputs are the rows of A, rows the columns of B.
__device__ inline int TileOutput(int i) { return threadIdx.x % kWarpSize / 4 + i / 2 * 8; }
__device__ inline int TileRow(int i) { return threadIdx.x % 4 * 2 + i % 2; }

__device__ inline void Write(const LinearArgs& args, int64_t row, int64_t output, float value) {
  if (args.bias != nullptr) value += args.bias[output];
  float& y = args.y[row * args.outputs + output];
  y = args.accumulate ? y + value : value;
}
// An element of a tile, which may lie beyond the matrix.
__device__ inline void WriteTile(const LinearArgs& args, int64_t row, int64_t output, float value) {
  if (row < args.rows && output < args.outputs) Write(args, row, output, value);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_TILE_H_
