#include "kernels/cuda/linear_tile.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr WeightDType kInt4 = WeightDType::kInt4;

// Levels of a weight tile times activations, of one group; c is what Mma makes of them.
__device__ void MultiplyGroup(uint2 levels, uint2 x, int32_t c[4]) {
  const uint32_t a[4] = {levels.x & 0x0f0f0f0fu, levels.x >> 4 & 0x0f0f0f0fu,
                         levels.y & 0x0f0f0f0fu, levels.y >> 4 & 0x0f0f0f0fu};
  const uint32_t b[2] = {x.x, x.y};
  for (int i = 0; i < 4; ++i) c[i] = 0;
  Mma(c, a, b);
}

// The chain of quantization.h, one group on.
__device__ float AddGroup(float y, int32_t dot, const InputGroup& x, float scale, float zero) {
  return fmaf(zero, x.scaled_sum, fmaf(x.scale * scale, static_cast<float>(dot), y));
}

// Few rows: the warps of a block multiply kRound groups of 16 outputs and 8 rows between them; then
// each of its threads goes on with the chain of one element.
__global__ void __launch_bounds__(kLinearThreads)
    LinearInt4FewKernel(LinearArgs args, int64_t groups) {
  constexpr int kRound = 4 * kLinearWarps;
  HYDRANT_SHARED(int32_t, dots, kRound * kLinearThreads);
  static_assert(kLinearThreads == kWeightTileOutputs * kInputTileRows);
  const int64_t output_tile = blockIdx.x, row_tile = blockIdx.y;
  const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
  const uint2* w = static_cast<const uint2*>(args.w) + output_tile * groups * kWarpSize;
  const uint2* x = static_cast<const uint2*>(args.x) + row_tile * groups * kWarpSize;
  // Thread t has element t / 32 of lane t % 32.
  const int64_t row = row_tile * kInputTileRows + TileRow(warp);
  const Int4Range* ranges =
      args.w_ranges + output_tile * groups * kWeightTileOutputs + TileOutput(warp);
  const InputGroup* x_groups = args.x_groups + row_tile * groups * kInputTileRows + TileRow(warp);
  float y = 0.0f;
  for (int64_t first = 0; first < groups; first += kRound) {
    const int count = static_cast<int>(min(groups - first, static_cast<int64_t>(kRound)));
#pragma unroll
    for (int i = 0; i < kRound / kLinearWarps; ++i) {
      const int at = i * kLinearWarps + warp;
      if (at >= count) continue;
      int32_t c[4];
      MultiplyGroup(w[(first + at) * kWarpSize + lane], x[(first + at) * kWarpSize + lane], c);
#pragma unroll
      for (int j = 0; j < 4; ++j) dots[(at * 4 + j) * kWarpSize + lane] = c[j];
    }
    __syncthreads();
    if (row < args.rows) {
      for (int at = 0; at < count; ++at) {
        const Int4Range range = ranges[(first + at) * kWeightTileOutputs];
        y = AddGroup(y, dots[at * kLinearThreads + threadIdx.x],
                     x_groups[(first + at) * kInputTileRows], F16ToFloat(range.scale),
                     F16ToFloat(range.zero));
      }
    }
    __syncthreads();
  }
  WriteTile(args, row, output_tile * kWeightTileOutputs + TileOutput(warp), y);
}

// Many rows: a warp computes 16 outputs of kRowTiles * 8 rows, group after group.
constexpr int kRowTiles = 4;
__global__ void __launch_bounds__(kLinearThreads)
    LinearInt4ManyKernel(LinearArgs args, int64_t groups) {
  const int64_t output_tile =
      blockIdx.x * static_cast<int64_t>(kLinearWarps) + threadIdx.x / kWarpSize;
  if (output_tile * kWeightTileOutputs >= args.outputs) return;
  const int lane = threadIdx.x % kWarpSize;
  const int64_t row_tile = blockIdx.y * static_cast<int64_t>(kRowTiles);
  const uint2* w = static_cast<const uint2*>(args.w) + output_tile * groups * kWarpSize;
  const uint2* x = static_cast<const uint2*>(args.x) + row_tile * groups * kWarpSize;
  const Int4Range* ranges = args.w_ranges + output_tile * groups * kWeightTileOutputs;
  const InputGroup* x_groups = args.x_groups + row_tile * groups * kInputTileRows;
  float y[kRowTiles][4] = {};
  for (int64_t group = 0; group < groups; ++group) {
    const uint2 levels = w[group * kWarpSize + lane];
    float scales[2], zeros[2];  // of this lane's two outputs
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Int4Range range = ranges[group * kWeightTileOutputs + TileOutput(2 * half)];
      scales[half] = F16ToFloat(range.scale);
      zeros[half] = F16ToFloat(range.zero);
    }
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const int64_t at = i * groups + group;
      int32_t c[4];
      MultiplyGroup(levels, x[at * kWarpSize + lane], c);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        y[i][j] = AddGroup(y[i][j], c[j], x_groups[at * kInputTileRows + TileRow(j)], scales[j / 2],
                           zeros[j / 2]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      WriteTile(args, (row_tile + i) * kInputTileRows + TileRow(j),
                output_tile * kWeightTileOutputs + TileOutput(j), y[i][j]);
    }
  }
}

constexpr int kGroupsAWarp = 8;

// A warp quantises kGroupsAWarp groups of a row, a column a lane.
__global__ void __launch_bounds__(kWarpSize)
    Int4TilesKernel(const float* x, int64_t rows, int64_t cols, int64_t groups, InputTiles to) {
  const int64_t row = blockIdx.x, row_tile = row / kInputTileRows;
  const int place = static_cast<int>(row % kInputTileRows), lane = threadIdx.x;
  const int64_t first = blockIdx.y * static_cast<int64_t>(kGroupsAWarp);
  for (int64_t group = first; group < min(first + kGroupsAWarp, groups); ++group) {
    const int64_t column = group * kInt4Group + lane;
    const float value = row < rows && column < cols ? x[row * cols + column] : 0.0f;
    const Int8Scale scale = MakeInt8Scale(WarpMax(fabsf(value)));
    const int8_t quantised = ToInt8(value, scale);
    const float sum = WarpSum(static_cast<float>(quantised));  // exact
    const int64_t at = row_tile * groups + group;
    to.values[at * kInputTileBytes + InputTileOffset(place, lane)] =
        static_cast<uint8_t>(quantised);
    if (lane == 0) to.groups[at * kInputTileRows + place] = {scale.scale, scale.scale * sum};
  }
}

}  // namespace

void LaunchLinearInt4(const LinearArgs& args, cudaStream_t stream) {
  constexpr int kFewRows = 2 * kInputTileRows;
  const int64_t groups = ColumnTiles(kInt4, args.cols);
  const int64_t output_tiles = (args.outputs + kWeightTileOutputs - 1) / kWeightTileOutputs;
  const int64_t row_tiles = (args.rows + kInputTileRows - 1) / kInputTileRows;
  if (args.rows <= kFewRows) {
    const dim3 grid(static_cast<unsigned>(output_tiles), static_cast<unsigned>(row_tiles));
    HYDRANT_LAUNCH(LinearInt4FewKernel, grid, kLinearThreads, 0, stream, args, groups);
    return;
  }
  const dim3 grid(static_cast<unsigned>((output_tiles + kLinearWarps - 1) / kLinearWarps),
                  static_cast<unsigned>((row_tiles + kRowTiles - 1) / kRowTiles));
  HYDRANT_LAUNCH(LinearInt4ManyKernel, grid, kLinearThreads, 0, stream, args, groups);
}

void LaunchInt4Tiles(const float* x, int64_t rows, int64_t cols, const InputTiles& to,
                     cudaStream_t stream) {
  const int64_t groups = ColumnTiles(kInt4, cols);
  // Whole tiles: what a tile lacks in rows is zeros.
  const dim3 grid(
      static_cast<unsigned>((rows + kInputTileRows - 1) / kInputTileRows * kInputTileRows),
      static_cast<unsigned>((groups + kGroupsAWarp - 1) / kGroupsAWarp));
  HYDRANT_LAUNCH(Int4TilesKernel, grid, kWarpSize, 0, stream, x, rows, cols, groups, to);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
