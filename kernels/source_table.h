// A table whose rows stay where its source has them: for backends that compute in the host's
// memory.

#ifndef HYDRANT_KERNELS_SOURCE_TABLE_H_
#define HYDRANT_KERNELS_SOURCE_TABLE_H_

#include <utility>

#include "kernels/backend.h"
#include "kernels/check.h"

namespace hydrant::kernels {

class SourceTable final : public Table {
 public:
  explicit SourceTable(MatrixSource source)
      : Table(source.rows, source.cols), source_(std::move(source)) {}
  // The table behind the interface; aborts when another backend made it.
  static const SourceTable& From(const Table& table) {
    const auto* source_table = dynamic_cast<const SourceTable*>(&table);
    HYDRANT_CHECK(source_table != nullptr);
    return *source_table;
  }

  size_t bytes() const override { return 0; }
  // From several threads at once.
  void Read(int32_t id, float* out) const {
    HYDRANT_CHECK(id >= 0 && id < rows());
    source_.read_row(id, out);
  }

 private:
  const MatrixSource source_;
};

}  // namespace hydrant::kernels

#endif  // HYDRANT_KERNELS_SOURCE_TABLE_H_
