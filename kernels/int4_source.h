// Rows of a MatrixSource as WeightDType::kInt4 holds them, for every backend's Pack.

#ifndef HYDRANT_KERNELS_INT4_SOURCE_H_
#define HYDRANT_KERNELS_INT4_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace hydrant::kernels {

// levels[cols] and ranges[Int4Groups(cols)] of a row: the file's own, or else quantised by way of
// scratch[cols]. INVALID_ARGUMENT for a row whose weights f16 ranges cannot span.
absl::Status ReadInt4Row(const MatrixSource& source, int64_t row, float* scratch, uint8_t* levels,
                         Int4Range* ranges);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_INT4_SOURCE_H_
