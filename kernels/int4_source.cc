#include "kernels/int4_source.h"

#include "absl/strings/str_cat.h"

namespace hydrant::kernels {

absl::Status ReadInt4Row(const MatrixSource& source, int64_t row, float* scratch, uint8_t* levels,
                         Int4Range* ranges) {
  if (source.read_groups) {
    source.read_groups(row, levels, ranges);
    return absl::OkStatus();
  }
  source.read_row(row, scratch);
  if (QuantizeInt4(scratch, source.cols, levels, ranges)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("row ", row,
                   " has weights that are not finite, or too large for int4, whose "
                   "ranges are f16"));
}

}  // namespace hydrant::kernels
