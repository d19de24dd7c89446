// Weights in device memory, in the order of linear.h.

#ifndef HYDRANT_KERNELS_CUDA_PACKED_MATRIX_H_
#define HYDRANT_KERNELS_CUDA_PACKED_MATRIX_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/quantization.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

class CudaMatrix final : public PackedMatrix {
 public:
  // INVALID_ARGUMENT for a shape or dtype it cannot hold, RESOURCE_EXHAUSTED where the memory is
  // not there.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Make(const MatrixSource& source,
                                                            WeightDType dtype,
                                                            const Device& device);
  // The matrix behind the interface; aborts when another backend made it.
  static const CudaMatrix& From(const PackedMatrix& matrix);

  WeightDType dtype() const { return dtype_; }
  // Whether it holds every number of its source to the bit, in f32 or bf16.
  bool exact() const { return exact_; }
  const void* values() const { return values_.data(); }
  const float* scales() const { return static_cast<const float*>(scales_.data()); }
  const Int4Range* ranges() const { return static_cast<const Int4Range*>(ranges_.data()); }
  size_t bytes() const override { return values_.bytes() + scales_.bytes() + ranges_.bytes(); }

 private:
  CudaMatrix(int64_t rows, int64_t cols, WeightDType dtype)
      : PackedMatrix(rows, cols), dtype_(dtype) {}

  const WeightDType dtype_;
  bool exact_ = false;
  Buffer values_;
  Buffer scales_;  // int8: [rows]
  Buffer ranges_;  // int4: [output tiles, groups, 16]
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_PACKED_MATRIX_H_
