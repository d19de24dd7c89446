// Weights in the tiles that the linear kernels of one instruction set read (isa/kernel_table.h).

#ifndef HYDRANT_KERNELS_CPU_PACKED_WEIGHTS_H_
#define HYDRANT_KERNELS_CPU_PACKED_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cpu/isa/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"

namespace hydrant::kernels::cpu {

class PackedWeights : public PackedMatrix {
 public:
  // Reads, converts and packs all rows on the team's threads. INVALID_ARGUMENT for a shape or a
  // weight that the dtype cannot hold.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Make(const MatrixSource& source,
                                                            WeightDType dtype,
                                                            const KernelTable& kernels,
                                                            ThreadPool& pool, Arena& arena);

  size_t bytes() const override { return tiles_.bytes + scales_.bytes; }
  WeightDType dtype() const { return dtype_; }
  int64_t padded_cols() const { return padded_cols_; }
  int64_t num_tiles() const { return num_tiles_; }
  int64_t tile_bytes() const { return tile_bytes_; }
  const uint8_t* tiles() const { return tiles_.data; }
  const float* scales() const { return reinterpret_cast<const float*>(scales_.data); }

 private:
  PackedWeights(int64_t rows, int64_t cols, WeightDType dtype, const KernelTable& kernels,
                Arena& arena);
  // Of one thread, sized by Make.
  struct Scratch {
    std::vector<float> row, rotated;
    std::vector<uint8_t> narrow;  // a tile, row by row
    std::vector<uint8_t> levels;  // int4: of a row; 0 past its end
    std::vector<Int4Range> ranges;
    absl::Status status;
  };
  absl::Status PackTile(const MatrixSource& source, const KernelTable& kernels, int64_t tile,
                        Scratch& scratch);
  // A row of int4: for each group its words of levels, the scale and the zero.
  void NarrowGroups(const Scratch& scratch, uint8_t* out) const;
  // Rows to the order of a tile (KernelTable), each word ^ flip; and those of NarrowGroups.
  void Interleave(const uint8_t* narrow, uint32_t flip, uint8_t* to) const;
  void InterleaveGroups(const uint8_t* narrow, uint8_t* to) const;

  WeightDType dtype_;
  int64_t tile_rows_;
  int64_t padded_cols_;
  int64_t num_tiles_;
  int64_t tile_bytes_;
  Piece tiles_;
  Piece scales_;  // int8: [num_tiles * tile_rows]
};

}  // namespace hydrant::kernels::cpu

#endif  // HYDRANT_KERNELS_CPU_PACKED_WEIGHTS_H_
