// Rows of an embedding in device memory, exactly as their source gives them: those of a packed
// matrix where it holds them, or else rows of the narrowest number format that does.

#ifndef HYDRANT_KERNELS_CUDA_TABLE_H_
#define HYDRANT_KERNELS_CUDA_TABLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

class CudaTable final : public Table {
 public:
  // RESOURCE_EXHAUSTED where the memory is not there.
  static absl::StatusOr<std::unique_ptr<Table>> Make(const MatrixSource& source,
                                                     const PackedMatrix* packed,
                                                     const Device& device);
  // The table behind the interface; aborts when another backend made it.
  static const CudaTable& From(const Table& table);

  const TableView& view() const { return view_; }
  size_t bytes() const override { return own_.bytes(); }

 private:
  CudaTable(int64_t rows, int64_t cols) : Table(rows, cols) {}

  TableView view_ = {};
  Buffer own_;
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_TABLE_H_
