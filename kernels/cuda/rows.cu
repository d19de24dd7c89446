#include "kernels/cuda/linear.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int kNormThreads = 128;
constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;  // of a kernel that strides over its elements

int BlocksFor(int64_t count) {
  return static_cast<int>(std::min((count + kThreads - 1) / kThreads, kMaxBlocks));
}

__global__ void RmsNormKernel(NormRows norm) {
  const int64_t row = blockIdx.x / norm.groups;
  const int group = blockIdx.x % norm.groups;
  const float* x = norm.x + row * norm.row_stride + static_cast<int64_t>(group) * norm.cols;
  float* y = norm.y + row * norm.row_stride + static_cast<int64_t>(group) * norm.cols;
  const float* weight = norm.weights[group < norm.first ? 0 : 1];
  float sum = 0.0f;
  for (int c = threadIdx.x; c < norm.cols; c += kNormThreads) sum += x[c] * x[c];
  sum = BlockSum<kNormThreads>(sum);
  const float inverse = 1.0f / sqrtf(sum / static_cast<float>(norm.cols) + norm.eps);
  for (int c = threadIdx.x; c < norm.cols; c += kNormThreads) y[c] = x[c] * inverse * weight[c];
}

__global__ void LayerNormKernel(NormRows norm) {
  const float* x = norm.x + blockIdx.x * norm.row_stride;
  float* y = norm.y + blockIdx.x * norm.row_stride;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < norm.cols; c += kNormThreads) sum += x[c];
  const float mean = BlockSum<kNormThreads>(sum) / static_cast<float>(norm.cols);
  float squares = 0.0f;
  for (int c = threadIdx.x; c < norm.cols; c += kNormThreads) {
    squares += (x[c] - mean) * (x[c] - mean);
  }
  squares = BlockSum<kNormThreads>(squares);
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(norm.cols) + norm.eps);
  for (int c = threadIdx.x; c < norm.cols; c += kNormThreads) {
    y[c] = (x[c] - mean) * inverse * norm.weights[0][c] + norm.bias[c];
  }
}

__global__ void AddKernel(const float* x, float* y, int64_t count) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < count; i += stride) y[i] += x[i];
}

__device__ float TableNumber(const TableView& table, int64_t row, int64_t c) {
  const auto* narrow = static_cast<const uint16_t*>(table.values);
  switch (table.form) {
    case TableForm::kF32:
      return static_cast<const float*>(table.values)[row * table.cols + c];
    case TableForm::kBF16:
      return BF16ToFloat(narrow[row * table.cols + c]);
    case TableForm::kF16:
      return F16ToFloat(narrow[row * table.cols + c]);
    case TableForm::kBF16Tiles:
      constexpr int64_t kColumns = TileColumns(WeightDType::kBF16);
      const int64_t tile =
          row / kWeightTileOutputs * ColumnTiles(WeightDType::kBF16, table.cols) + c / kColumns;
      const int offset = WeightTileOffset(static_cast<int>(row % kWeightTileOutputs),
                                          static_cast<int>(c % kColumns * 2));
      return BF16ToFloat(narrow[(tile * kWeightTileBytes + offset) / 2]);
  }
  return 0.0f;
}

__global__ void EmbedKernel(TableView table, const int32_t* ids, float scale, float* y) {
  const int64_t id = ids[blockIdx.x];
  float* to = y + blockIdx.x * table.cols;
  for (int64_t c = threadIdx.x; c < table.cols; c += kThreads) {
    to[c] = TableNumber(table, id, c) * scale;
  }
}

template <Activation kActivation>
__device__ float Activated(float x) {
  if constexpr (kActivation == Activation::kSilu) return x / (1.0f + expf(-x));
  if constexpr (kActivation == Activation::kGelu) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
  if constexpr (kActivation == Activation::kGeluTanh) {
    constexpr float kRootOf2OverPi = 0.79788456080286536f;
    return 0.5f * x * (1.0f + tanhf(kRootOf2OverPi * (x + 0.044715f * x * x * x)));
  }
  if constexpr (kActivation == Activation::kRelu) return x > 0.0f ? x : 0.0f;
}

template <Activation kActivation>
__global__ void ActivationKernel(const float* gate, const float* up, int64_t in_stride, float* y,
                                 int64_t rows, int64_t cols) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < rows * cols; i += stride) {
    const int64_t at = i / cols * in_stride + i % cols;
    const float activated = Activated<kActivation>(gate[at]);
    y[i] = up == nullptr ? activated : activated * up[at];
  }
}

__global__ void GatherKernel(const float* x, const int32_t* rows, int64_t cols, float* y) {
  const float* from = x + rows[blockIdx.x] * cols;
  float* to = y + blockIdx.x * cols;
  for (int64_t c = threadIdx.x; c < cols; c += kThreads) to[c] = from[c];
}

// Cosines, then sines.
__global__ void RopeTableKernel(const float* inv_freq, int half, float factor,
                                const int32_t* positions, int64_t rows, float* table) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < rows * half; i += stride) {
    const int64_t row = i / half, pair = i % half;
    const float angle = static_cast<float>(positions[row]) * inv_freq[pair];
    table[row * 2 * half + pair] = cosf(angle) * factor;
    table[row * 2 * half + half + pair] = sinf(angle) * factor;
  }
}

}  // namespace

void LaunchRmsNorm(const NormRows& norm, cudaStream_t stream) {
  if (norm.rows == 0) return;
  HYDRANT_LAUNCH(RmsNormKernel, static_cast<unsigned>(norm.rows * norm.groups), kNormThreads, 0,
                 stream, norm);
}

void LaunchLayerNorm(const NormRows& norm, cudaStream_t stream) {
  if (norm.rows == 0) return;
  HYDRANT_LAUNCH(LayerNormKernel, static_cast<unsigned>(norm.rows), kNormThreads, 0, stream, norm);
}

void LaunchAdd(const float* x, float* y, int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  HYDRANT_LAUNCH(AddKernel, BlocksFor(count), kThreads, 0, stream, x, y, count);
}

void LaunchEmbed(const TableView& table, const int32_t* ids, int64_t count, float scale, float* y,
                 cudaStream_t stream) {
  if (count == 0) return;
  HYDRANT_LAUNCH(EmbedKernel, static_cast<unsigned>(count), kThreads, 0, stream, table, ids, scale,
                 y);
}

void LaunchActivation(Activation activation, const float* gate, const float* up, int64_t stride,
                      float* y, int64_t rows, int64_t cols, cudaStream_t stream) {
  const int blocks = BlocksFor(rows * cols);
  if (blocks == 0) return;
  switch (activation) {
    case Activation::kSilu:
      HYDRANT_LAUNCH(ActivationKernel<Activation::kSilu>, blocks, kThreads, 0, stream, gate, up,
                     stride, y, rows, cols);
      return;
    case Activation::kGelu:
      HYDRANT_LAUNCH(ActivationKernel<Activation::kGelu>, blocks, kThreads, 0, stream, gate, up,
                     stride, y, rows, cols);
      return;
    case Activation::kGeluTanh:
      HYDRANT_LAUNCH(ActivationKernel<Activation::kGeluTanh>, blocks, kThreads, 0, stream, gate, up,
                     stride, y, rows, cols);
      return;
    case Activation::kRelu:
      HYDRANT_LAUNCH(ActivationKernel<Activation::kRelu>, blocks, kThreads, 0, stream, gate, up,
                     stride, y, rows, cols);
      return;
  }
}

void LaunchGather(const float* x, const int32_t* rows, int64_t count, int64_t cols, float* y,
                  cudaStream_t stream) {
  if (count == 0) return;
  HYDRANT_LAUNCH(GatherKernel, static_cast<unsigned>(count), kThreads, 0, stream, x, rows, cols, y);
}

void LaunchRopeTable(const float* inv_freq, int half, float factor, const int32_t* positions,
                     int64_t rows, float* table, cudaStream_t stream) {
  const int blocks = BlocksFor(rows * half);
  if (blocks == 0) return;
  HYDRANT_LAUNCH(RopeTableKernel, blocks, kThreads, 0, stream, inv_freq, half, factor, positions,
                 rows, table);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
