// Ops that look at one row at a time. Matrices are contiguous f32 in device memory.

#ifndef HYDRANT_KERNELS_CUDA_ROWS_H_
#define HYDRANT_KERNELS_CUDA_ROWS_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/platform.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// `groups` rows of `cols` numbers, each `stride` floats after the other, `rows` times; group i of a
// row takes weights[i < first ? 0 : 1]. y may be x.
struct NormRows {
  const float* x;
  float* y;
  int64_t rows, row_stride;
  int groups, first;
  int cols;
  const float* weights[2];
  const float* bias;  // LayerNorm's
  float eps;
};
void LaunchRmsNorm(const NormRows& norm, cudaStream_t stream);
void LaunchLayerNorm(const NormRows& norm, cudaStream_t stream);

void LaunchAdd(const float* x, float* y, int64_t count, cudaStream_t stream);
// How the numbers of an embedding lie: row by row, or in the weight tiles of linear.h.
enum class TableForm { kF32, kBF16, kF16, kBF16Tiles };
struct TableView {
  TableForm form;
  const void* values;
  int64_t cols;
};
// y[i] = row ids[i] of the table, times `scale`.
void LaunchEmbed(const TableView& table, const int32_t* ids, int64_t count, float scale, float* y,
                 cudaStream_t stream);
// y[i] = act(gate[i]) * up[i], or act(gate[i]) where up is null; rows of `cols`, those of gate and
// up `stride` floats apart.
void LaunchActivation(Activation activation, const float* gate, const float* up, int64_t stride,
                      float* y, int64_t rows, int64_t cols, cudaStream_t stream);
void LaunchGather(const float* x, const int32_t* rows, int64_t count, int64_t cols, float* y,
                  cudaStream_t stream);
void LaunchRopeTable(const float* inv_freq, int half, float factor, const int32_t* positions,
                     int64_t rows, float* table, cudaStream_t stream);

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_ROWS_H_
