// AMX's eight tile registers, which hold up to 16 rows of 64 bytes: their shapes, and how attention
// uses them.

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

// Attention holds the sums of four key blocks, or of four vectors of 16 output channels, in
// registers 0 to 3; 4 has queries or weights, 5 keys or values.
inline constexpr int kAmxSums = 4;
inline constexpr int64_t kAmxSumsStride = kAmxSums * kLanes;  // in memory, side by side

HYDRANT_INLINE void AmxZeroSums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Of 32 bits each.
HYDRANT_INLINE void AmxStoreSums(void* to) {
  auto* sums = static_cast<uint32_t*>(to);
  _tile_stored(0, sums, kAmxSumsStride * 4);
  _tile_stored(1, sums + kLanes, kAmxSumsStride * 4);
  _tile_stored(2, sums + 2 * kLanes, kAmxSumsStride * 4);
  _tile_stored(3, sums + 3 * kLanes, kAmxSumsStride * 4);
}

// The most of `count` rows that a register holds and that go into them evenly.
HYDRANT_INLINE int64_t AmxStep(int64_t count) {
  int64_t step = count < kAmxRows ? count : kAmxRows;
  while (count % step != 0) --step;
  return step;
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif

#endif  // HYDRANT_KERNELS_CPU_ISA_AMX_TILES_H_
