// The shapes of AMX's eight tile registers, which hold up to 16 rows of 64 bytes.

#ifndef HYDRANT_KERNELS_CPU_ISA_AMX_TILES_H_
#define HYDRANT_KERNELS_CPU_ISA_AMX_TILES_H_

#include "kernels/cpu/isa/simd.h"

#if defined(__AMX_TILE__)

namespace hydrant::kernels::cpu::HYDRANT_ISA {

inline constexpr int kAmxRows = 16;
inline constexpr int kAmxRowBytes = 64;

// As LDTILECFG reads it. Whoever loads shapes calls _tile_release() when it is done.
class alignas(64) AmxShapes {
 public:
  void Set(int tile, int64_t rows, int64_t row_bytes) {
    rows_[tile] = static_cast<uint8_t>(rows);
    row_bytes_[tile] = static_cast<uint16_t>(row_bytes);
  }
  void Load() const {
    // g++ tells its optimiser of the first eight bytes only that the next line reads, and nothing
    // of what _tile_loadd reads: so what the tiles are loaded from is written before this, too.
    asm volatile("" : : "r"(this) : "memory");
    _tile_loadconfig(this);
  }

 private:
  uint8_t palette_ = 1;
  uint8_t start_row_ = 0;
  uint8_t reserved_[14] = {};
  uint16_t row_bytes_[16] = {};
  uint8_t rows_[16] = {};
};
static_assert(sizeof(AmxShapes) == 64);

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_TILES_H_
