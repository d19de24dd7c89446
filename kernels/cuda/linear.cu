#include "kernels/cuda/linear_tile.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

// --- f32: a warp an output ---

constexpr int kF32Rows = 4;

__global__ void __launch_bounds__(kLinearThreads) LinearF32Kernel(LinearArgs args) {
  const int64_t output = blockIdx.x * static_cast<int64_t>(kLinearWarps) + threadIdx.x / kWarpSize;
  if (output >= args.outputs) return;
  const int64_t first_row = blockIdx.y * static_cast<int64_t>(kF32Rows);
  const int rows = static_cast<int>(min(args.rows - first_row, static_cast<int64_t>(kF32Rows)));
  const float* w = static_cast<const float*>(args.w) + output * args.cols;
  const float* x = static_cast<const float*>(args.x) + first_row * args.cols;
  float sums[kF32Rows] = {};
  for (int64_t c = threadIdx.x % kWarpSize; c < args.cols; c += kWarpSize) {
    const float weight = w[c];
#pragma unroll
    for (int i = 0; i < kF32Rows; ++i) {
      if (i < rows) sums[i] = fmaf(x[i * args.cols + c], weight, sums[i]);
    }
  }
  WarpSums(sums);
#pragma unroll
  for (int i = 0; i < kF32Rows; ++i) {
    if (i < rows && threadIdx.x % kWarpSize == 0) Write(args, first_row + i, output, sums[i]);
  }
}

// --- bf16 and int8: tensor cores ---

// A sum of kRowTiles x 8 rows by 16 outputs.
template <typename Sum, int kRowTiles>
struct TileSum {
  Sum at[kRowTiles][4] = {};
};

template <typename Sum, int kRowTiles>
__device__ void AddSegment(const uint4* w, const uint2* x, int64_t x_stride, int64_t begin,
                           int64_t end, TileSum<Sum, kRowTiles>& sum) {
  const int lane = threadIdx.x % kWarpSize;
#pragma unroll 2
  for (int64_t tile = begin; tile < end; ++tile) {
    const uint4 words = w[tile * kWarpSize + lane];
    const uint32_t a[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const uint2 pair = x[i * x_stride + tile * kWarpSize + lane];
      const uint32_t b[2] = {pair.x, pair.y};
      Mma(sum.at[i], a, b);
    }
  }
}

__device__ void WriteTile(const LinearArgs& args, int64_t row, int64_t output, int32_t value) {
  if (row >= args.rows || output >= args.outputs) return;
  Write(args, row, output, static_cast<float>(value) * args.x_scales[row] * args.w_scales[output]);
}

// Many rows: a warp computes 16 outputs of kRowTiles * 8 rows.
template <typename Sum, int kRowTiles>
__global__ void __launch_bounds__(kLinearThreads) LinearManyKernel(LinearArgs args, int64_t tiles) {
  const int64_t output_tile =
      blockIdx.x * static_cast<int64_t>(kLinearWarps) + threadIdx.x / kWarpSize;
  if (output_tile * kWeightTileOutputs >= args.outputs) return;
  const int64_t row_tile = blockIdx.y * static_cast<int64_t>(kRowTiles);
  const uint4* w = static_cast<const uint4*>(args.w) + output_tile * tiles * kWarpSize;
  const uint2* x = static_cast<const uint2*>(args.x) + row_tile * tiles * kWarpSize;
  TileSum<Sum, kRowTiles> total;
  for (int64_t begin = 0; begin < tiles; begin += kSegmentTiles) {
    TileSum<Sum, kRowTiles> segment;
    AddSegment(w, x, tiles * kWarpSize, begin,
               min(begin + static_cast<int64_t>(kSegmentTiles), tiles), segment);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) total.at[i][j] += segment.at[i][j];
    }
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      WriteTile(args, (row_tile + i) * kInputTileRows + TileRow(j),
                output_tile * kWeightTileOutputs + TileOutput(j), total.at[i][j]);
    }
  }
}

// Few rows: the warps of a block share out the segments of 16 outputs of 8 rows; kLinearWarps
// segments are added before the next are begun.
template <typename Sum>
__global__ void __launch_bounds__(kLinearThreads) LinearFewKernel(LinearArgs args, int64_t tiles) {
  HYDRANT_SHARED(Sum, segments, kLinearWarps * kWeightTileOutputs * kInputTileRows);
  const int64_t output_tile = blockIdx.x, row_tile = blockIdx.y;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const uint4* w = static_cast<const uint4*>(args.w) + output_tile * tiles * kWarpSize;
  const uint2* x = static_cast<const uint2*>(args.x) + row_tile * tiles * kWarpSize;
  Sum total = 0;  // of one element: thread t has element t / 32 of lane t % 32
  for (int64_t first = 0; first < tiles; first += kLinearWarps * kSegmentTiles) {
    const int64_t begin = first + warp * kSegmentTiles;
    TileSum<Sum, 1> segment;
    AddSegment(w, x, 0, begin, min(begin + static_cast<int64_t>(kSegmentTiles), tiles), segment);
#pragma unroll
    for (int j = 0; j < 4; ++j) segments[(warp * 4 + j) * kWarpSize + lane] = segment.at[0][j];
    __syncthreads();
    for (int i = 0; i < kLinearWarps; ++i) {
      if (first + i * kSegmentTiles < tiles) total += segments[(i * 4 + warp) * kWarpSize + lane];
    }
    __syncthreads();
  }
  static_assert(kLinearWarps == 4);
  WriteTile(args, row_tile * kInputTileRows + TileRow(warp),
            output_tile * kWeightTileOutputs + TileOutput(warp), total);
}

template <typename Sum>
void LaunchTiled(const LinearArgs& args, int64_t tiles, cudaStream_t stream) {
  constexpr int kFewRows = 2 * kInputTileRows, kRowTiles = 8;
  const int64_t output_tiles = (args.outputs + kWeightTileOutputs - 1) / kWeightTileOutputs;
  const int64_t row_tiles = (args.rows + kInputTileRows - 1) / kInputTileRows;
  if (args.rows <= kFewRows) {
    const dim3 grid(static_cast<unsigned>(output_tiles), static_cast<unsigned>(row_tiles));
    HYDRANT_LAUNCH(LinearFewKernel<Sum>, grid, kLinearThreads, 0, stream, args, tiles);
    return;
  }
  const dim3 grid(static_cast<unsigned>((output_tiles + kLinearWarps - 1) / kLinearWarps),
                  static_cast<unsigned>((row_tiles + kRowTiles - 1) / kRowTiles));
  HYDRANT_LAUNCH((LinearManyKernel<Sum, kRowTiles>), grid, kLinearThreads, 0, stream, args, tiles);
}

// --- the input's tiles ---

constexpr int kTileThreads = 32;  // a row is rotated and scaled by one warp

__global__ void BF16TilesKernel(const float* x, int64_t rows, int64_t cols, int64_t tiles,
                                uint8_t* to) {
  const int64_t row = blockIdx.x;
  uint8_t* base = to + row / kInputTileRows * tiles * kInputTileBytes;
  for (int64_t c = threadIdx.x; c < tiles * 16; c += kTileThreads) {
    const float value = row < rows && c < cols ? x[row * cols + c] : 0.0f;
    const int offset =
        InputTileOffset(static_cast<int>(row % kInputTileRows), static_cast<int>(c % 16 * 2));
    *reinterpret_cast<uint16_t*>(base + c / 16 * kInputTileBytes + offset) = FloatToBF16(value);
  }
}

// Rotates `chunk` columns at a time, twice: for the row's largest number, then for its numbers.
__global__ void Int8TilesKernel(const float* x, int64_t rows, int64_t cols, int64_t tiles,
                                int rotation, float normalise, uint8_t* to, float* scales) {
  constexpr int kChunk = 512;  // of a multiple of every block of a rotation
  HYDRANT_SHARED(float, chunk, kChunk);
  const int64_t row = blockIdx.x;
  uint8_t* base = to + row / kInputTileRows * tiles * kInputTileBytes;
  const int lane = threadIdx.x;
  Int8Scale scale{0.0f, 0.0f};
  float largest = 0.0f;
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t first = 0; first < tiles * 32; first += kChunk) {
      const int held =
          row < rows ? static_cast<int>(max(int64_t{0}, min(cols - first, int64_t{kChunk}))) : 0;
      for (int i = lane; i < kChunk; i += kTileThreads) {
        chunk[i] = i < held ? x[row * cols + first + i] : 0.0f;
      }
      __syncwarp(kWholeWarp);
      RotateRow(chunk, held, rotation, normalise);
      if (pass == 0) {
        largest = fmaxf(largest, WarpAbsMax(chunk, held));
      } else {
        for (int i = lane; i < kChunk && first + i < tiles * 32; i += kTileThreads) {
          const int64_t c = first + i;
          const int offset =
              InputTileOffset(static_cast<int>(row % kInputTileRows), static_cast<int>(c % 32));
          base[c / 32 * kInputTileBytes + offset] = static_cast<uint8_t>(ToInt8(chunk[i], scale));
        }
      }
      __syncwarp(kWholeWarp);
    }
    scale = MakeInt8Scale(largest);
  }
  if (lane == 0 && row < rows) scales[row] = scale.scale;
}

}  // namespace

void LaunchLinear(WeightDType dtype, const LinearArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return;
  if (dtype == WeightDType::kF32) {
    const dim3 grid(static_cast<unsigned>((args.outputs + kLinearWarps - 1) / kLinearWarps),
                    static_cast<unsigned>((args.rows + kF32Rows - 1) / kF32Rows));
    HYDRANT_LAUNCH(LinearF32Kernel, grid, kLinearThreads, 0, stream, args);
  } else if (dtype == WeightDType::kInt4) {
    LaunchLinearInt4(args, stream);
  } else if (dtype == WeightDType::kInt8) {
    LaunchTiled<int32_t>(args, ColumnTiles(dtype, args.cols), stream);
  } else {
    LaunchTiled<float>(args, ColumnTiles(dtype, args.cols), stream);
  }
}

void LaunchInputTiles(WeightDType dtype, const float* x, int64_t rows, int64_t cols, int rotation,
                      float normalise, const InputTiles& to, cudaStream_t stream) {
  if (rows == 0) return;
  // Whole tiles: what a tile lacks in rows is zeros.
  const auto padded =
      static_cast<unsigned>((rows + kInputTileRows - 1) / kInputTileRows * kInputTileRows);
  const int64_t column_tiles = ColumnTiles(dtype, cols);
  if (dtype == WeightDType::kInt4) {
    LaunchInt4Tiles(x, rows, cols, to, stream);
  } else if (dtype == WeightDType::kInt8) {
    HYDRANT_LAUNCH(Int8TilesKernel, padded, kTileThreads, 0, stream, x, rows, cols, column_tiles,
                   rotation, normalise, to.values, to.scales);
  } else {
    HYDRANT_LAUNCH(BF16TilesKernel, padded, kTileThreads, 0, stream, x, rows, cols, column_tiles,
                   to.values);
  }
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
