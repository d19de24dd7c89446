#include "kernels/cuda/table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/check.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/packed_matrix.h"
#include "kernels/float16.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int64_t kRowsAtOnce = 256;  // of a copy to the device

bool Same(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

size_t NumberBytes(TableForm form) { return form == TableForm::kF32 ? 4 : 2; }

TableForm NarrowestForm(const MatrixSource& source) {
  std::vector<float> row(source.cols);
  bool bf16 = true, f16 = true;
  for (int64_t i = 0; i < source.rows && (bf16 || f16); ++i) {
    source.read_row(i, row.data());
    for (const float value : row) {
      bf16 = bf16 && Same(RoundToBF16(value), value);
      f16 = f16 && Same(F16ToFloat(FloatToF16(value)), value);
    }
  }
  return bf16 ? TableForm::kBF16 : f16 ? TableForm::kF16 : TableForm::kF32;
}

void Convert(TableForm form, const std::vector<float>& row, uint8_t* out) {
  if (form == TableForm::kF32) {
    std::memcpy(out, row.data(), row.size() * sizeof(float));
    return;
  }
  for (const float value : row) {
    const uint16_t narrow = form == TableForm::kBF16 ? FloatToBF16(value) : FloatToF16(value);
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Table>> CudaTable::Make(const MatrixSource& source,
                                                       const PackedMatrix* packed,
                                                       const Device& device) {
  std::unique_ptr<CudaTable> table(new CudaTable(source.rows, source.cols));
  if (packed != nullptr && CudaMatrix::From(*packed).exact()) {
    const CudaMatrix& matrix = CudaMatrix::From(*packed);
    HYDRANT_CHECK(matrix.rows() == source.rows && matrix.cols() == source.cols);
    const bool tiles = matrix.dtype() == WeightDType::kBF16;
    table->view_ = {tiles ? TableForm::kBF16Tiles : TableForm::kF32, matrix.values(), source.cols};
    return table;
  }
  const TableForm form = NarrowestForm(source);
  const size_t row_bytes = source.cols * NumberBytes(form);
  const size_t bytes = source.rows * row_bytes;
  void* const memory = device.TryAllocate(bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a table of ", source.rows, " rows and ", source.cols, " columns needs ",
                     bytes, " bytes of device memory, which are not free"));
  }
  table->own_ = Buffer(memory, bytes, [](void* own) { cudaFree(own); });
  table->view_ = {form, memory, source.cols};
  std::vector<float> row(source.cols);
  std::vector<uint8_t> rows(kRowsAtOnce * row_bytes);
  for (int64_t first = 0; first < source.rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, source.rows - first);
    for (int64_t i = 0; i < count; ++i) {
      source.read_row(first + i, row.data());
      Convert(form, row, rows.data() + i * row_bytes);
    }
    device.CopyIn(static_cast<uint8_t*>(memory) + first * row_bytes, rows.data(),
                  count * row_bytes);
  }
  return table;
}

const CudaTable& CudaTable::From(const Table& table) {
  const auto* cuda = dynamic_cast<const CudaTable*>(&table);
  HYDRANT_CHECK(cuda != nullptr);
  return *cuda;
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
