// What every backend asks of the shapes that it is given.

#ifndef HYDRANT_KERNELS_SHAPES_H_
#define HYDRANT_KERNELS_SHAPES_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace hydrant::kernels {

// INVALID_ARGUMENT for a matrix without elements, or with more columns than `dtype` can sum up.
absl::Status CheckMatrix(const MatrixSource& source, WeightDType dtype);
// INVALID_ARGUMENT for a cache without layers, heads or channels, or with other windows than
// layers.
absl::Status CheckGeometry(const KvGeometry& geometry);
// Aborts unless Backend::ComputeRope can fill the table.
void CheckRope(const RopeParams& rope, std::span<const int32_t> positions, const Matrix& table);
// Aborts unless Backend::Sample can draw so.
void CheckDraws(const Matrix& logits, std::span<const TokenDraw> draws,
                std::span<const int32_t> tokens);

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_SHAPES_H_
