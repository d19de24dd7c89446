// y = x W^T. Weights, and x beside them, lie in device memory in the order in which the tensor
// cores take them (mma.h), so that every load of a warp is one run of memory:
//
//   a weight tile is 16 outputs x 32 bytes: lane l has its 16 bytes at l * 16
//   an input tile is 8 rows x 32 bytes: lane l has its 8 bytes at l * 8
//   tiles of one row of tiles lie one after the other along the columns
//
// 32 bytes are 16 bf16 or 32 int8 numbers. Missing outputs, rows and columns are zeros. An int4
// weight tile is an int8 one of levels, of whose words lane l has two by two in the nibbles of its
// 8 bytes at l * 8; a tile's columns are a group.
//
// Sums are cut after every kSegmentTiles tiles, and the segments added in order, whoever computes
// them: for few rows the warps of a block share out the segments of 16 outputs, for many a warp
// goes through all of its own. A row's result is the same in both, and in any batch. (int4 adds up
// its groups one by one, as quantization.h says.)

#ifndef HYDRANT_KERNELS_CUDA_LINEAR_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/platform.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kWeightTileOutputs = 16, kInputTileRows = 8, kTileBytes = 32;
constexpr int kWeightTileBytes = kWeightTileOutputs * kTileBytes;
constexpr int kInputTileBytes = kInputTileRows * kTileBytes;
constexpr int kSegmentTiles = 16;
static_assert(kInt4Group == kTileBytes);

// Tiles along the columns; a bf16 tile has 16 columns, the others 32.
constexpr int64_t TileColumns(WeightDType dtype) { return dtype == WeightDType::kBF16 ? 16 : 32; }
constexpr int64_t ColumnTiles(WeightDType dtype, int64_t cols) {
  return (cols + TileColumns(dtype) - 1) / TileColumns(dtype);
}
constexpr int64_t WeightTileBytes(WeightDType dtype) {
  return dtype == WeightDType::kInt4 ? kWeightTileBytes / 2 : kWeightTileBytes;
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

// Where the level at byte `offset` of an int8 tile lies in an int4 tile.
struct NibblePlace {
  int byte, shift;
};
constexpr NibblePlace PlaceOfNibble(int offset) {
  const int word = offset / 4 % 4;
  return {offset / 16 * 8 + word / 2 * 4 + offset % 4, word % 2 * 4};
}

// Of a group of int4's activations of a row: its scale, and the scale times the group's sum.
struct alignas(8) InputGroup {
  float scale, scaled_sum;
};

struct LinearArgs {
  const void* x;          // f32 rows, or input tiles
  const float* x_scales;  // int8: [rows]
  const void* w;          // f32 rows, or weight tiles
  const float* w_scales;  // int8: [outputs]
  // int4, in the order of the tiles: [row tiles, groups, 8] and [output tiles, groups, 16].
  const InputGroup* x_groups;
  const Int4Range* w_ranges;
  const float* bias;  // [outputs] or null
  float* y;           // [rows, outputs]
  int64_t rows, cols, outputs;
  bool accumulate;
};

// f32 as it is. kF32 takes x and w as rows.
void LaunchLinear(WeightDType dtype, const LinearArgs& args, cudaStream_t stream);

struct InputTiles {
  uint8_t* values;
  float* scales;       // int8
  InputGroup* groups;  // int4
};
// Rounds, or quantises (int8 after rotation), f32 rows into input tiles.
void LaunchInputTiles(WeightDType dtype, const float* x, int64_t rows, int64_t cols, int rotation,
                      float normalise, const InputTiles& to, cudaStream_t stream);

// int4's part of the two (linear_int4.cu).
void LaunchLinearInt4(const LinearArgs& args, cudaStream_t stream);
void LaunchInt4Tiles(const float* x, int64_t rows, int64_t cols, const InputTiles& to,
                     cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_H_
