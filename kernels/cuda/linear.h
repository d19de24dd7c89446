// y = x W^T. Weights, and x beside them, lie in device memory in the order in which the tensor
// cores take them (mma.h), so that every load of a warp is one run of memory:
//
//   a weight tile is 16 outputs x 32 bytes: lane l has its 16 bytes at l * 16
//   an input tile is 8 rows x 32 bytes: lane l has its 8 bytes at l * 8
//   tiles of one row of tiles lie one after the other along the columns
//
// 32 bytes are 16 bf16 or 32 int8 numbers. Missing outputs, rows and columns are zeros.
//
// Sums are cut after every kSegmentTiles tiles, and the segments added in order, whoever computes
// them: for few rows the warps of a block share out the segments of 16 outputs, for many a warp
// goes through all of its own. A row's result is the same in both, and in any batch.

#ifndef HYDRANT_KERNELS_CUDA_LINEAR_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/platform.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kWeightTileOutputs = 16, kInputTileRows = 8, kTileBytes = 32;
constexpr int kWeightTileBytes = kWeightTileOutputs * kTileBytes;
constexpr int kInputTileBytes = kInputTileRows * kTileBytes;
constexpr int kSegmentTiles = 16;

// Tiles along the columns; a bf16 tile has 16 columns, an int8 tile 32.
constexpr int64_t TileColumns(WeightDType dtype) { return dtype == WeightDType::kInt8 ? 32 : 16; }
constexpr int64_t ColumnTiles(WeightDType dtype, int64_t cols) {
  return (cols + TileColumns(dtype) - 1) / TileColumns(dtype);
}
// Where byte `byte` of row `row` of a tile lies in it: for a weight tile, and for an input tile.
__host__ __device__ constexpr int WeightTileOffset(int row, int byte) {
  const int word = byte / 4;
  return (row % 8 * 4 + word % 4) * 16 + (row / 8 + word / 4 * 2) * 4 + byte % 4;
}
__host__ __device__ constexpr int InputTileOffset(int row, int byte) {
  const int word = byte / 4;
  return (row * 4 + word % 4) * 8 + word / 4 * 4 + byte % 4;
}

struct LinearArgs {
  const void* x;          // f32 rows, or input tiles
  const float* x_scales;  // int8: [rows]
  const void* w;          // f32 rows, or weight tiles
  const float* w_scales;  // int8: [outputs]
  const float* bias;      // [outputs] or null
  float* y;               // [rows, outputs]
  int64_t rows, cols, outputs;
  bool accumulate;
};

// f32 as it is. kF32 takes x and w as rows.
void LaunchLinear(WeightDType dtype, const LinearArgs& args, cudaStream_t stream);

// Rounds, or rotates and quantises (writing scales), f32 rows into input tiles.
void LaunchInputTiles(WeightDType dtype, const float* x, int64_t rows, int64_t cols, int rotation,
                      float normalise, uint8_t* tiles, float* scales, cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_H_
