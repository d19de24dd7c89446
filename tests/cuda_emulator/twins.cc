#include <bit>
#include <cstring>

#include "tests/cuda_emulator/include/mma_twins.h"
#include "tests/cuda_emulator/machine.h"

namespace cuda_emulator {
namespace {

struct Fragments {
  uint32_t a[4], b[2];
  float c[4];
};

Copies& OwnCopies() {
  Machine& m = TheMachine();
  Copies& own = m.copies[m.current->thread];
  if (own.block_serial != m.block_serial) {
    own.begin = own.end = own.group = 0;
    own.block_serial = m.block_serial;
  }
  return own;
}

// What each lane of a warp has brought.
template <typename T>
struct Warp {
  const uint8_t* lanes;
  const T& operator[](int lane) const {
    return *reinterpret_cast<const T*>(lanes + lane * kExchangeBytes);
  }
};

uint8_t* GatherFragments(const uint32_t a[4], const uint32_t b[2], const void* c, Site site) {
  Fragments own;
  std::memcpy(own.a, a, sizeof(own.a));
  std::memcpy(own.b, b, sizeof(own.b));
  std::memcpy(own.c, c, sizeof(own.c));
  return Gather(~0u, &own, sizeof(own), site);
}

float BF16(uint32_t word, int half) {
  return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xffff0000u);
}

// Puts each lane's c in the place of its fragments. Products are exact in double.
__attribute__((target_clones("avx512f", "avx2", "default"))) void MultiplyAll(uint8_t* lanes) {
  typedef double Row __attribute__((vector_size(8 * sizeof(double))));
  double a[16][16];
  Row b[16], c[16];
  const Warp<Fragments> all{lanes};
  for (int lane = 0; lane < kWarp; ++lane) {
    const Fragments& own = all[lane];
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[g + i % 2 * 8][i / 2 * 8 + 2 * t + half] = BF16(own.a[i], half);
      }
      for (int i = 0; i < 2; ++i) {
        b[8 * i + 2 * t + half][g] = BF16(own.b[i], half);
        c[g + 8 * i][2 * t + half] = own.c[2 * i + half];
      }
    }
  }
  for (int row = 0; row < 16; ++row) {
    Row sum = c[row];
    for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k];
    c[row] = sum;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const auto value = static_cast<float>(c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
      std::memcpy(lanes + lane * kExchangeBytes + i * sizeof(float), &value, sizeof(float));
    }
  }
}

int32_t Byte(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }

}  // namespace

// Lane l of row group g = l / 4 and column group t = l % 4 holds of a 16 x 32-byte A: rows g and
// g + 8, words t and t + 4, in the order (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); of an 8
// column B, column g: words t and t + 4; of C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
void MmaBF16(float c[4], const uint32_t a[4], const uint32_t b[2], Site site) {
  uint8_t* const lanes = GatherFragments(a, b, c, site);
  uint8_t& multiplied = TheMachine().reduced[TheMachine().current->thread / kWarp];
  if (multiplied == 0) MultiplyAll(lanes);  // the first to get here does it for all
  multiplied = 1;
  std::memcpy(c, lanes + Lane() * kExchangeBytes, 4 * sizeof(float));
}

void MmaInt8(int32_t c[4], const uint32_t a[4], const uint32_t b[2], Site site) {
  const Warp<Fragments> all{GatherFragments(a, b, c, site)};
  const int lane = Lane();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, high = i / 2, column = lane % 4 * 2 + i % 2;
    for (int word = 0; word < 8; ++word) {
      const uint32_t x = all[row * 4 + word % 4].a[high + word / 4 * 2];
      const uint32_t y = all[column * 4 + word % 4].b[word / 4];
      for (int byte = 0; byte < 4; ++byte) c[i] += Byte(x, byte) * Byte(y, byte);
    }
  }
}

void WarpReduceAll(float* values, int count, float (*op)(float, float), Site site) {
  uint8_t* const lanes = Gather(~0u, values, count * sizeof(float), site);
  uint8_t& reduced = TheMachine().reduced[TheMachine().current->thread / kWarp];
  if (reduced == 0) {  // the first to get here does it for all
    for (int i = 0; i < count; ++i) {
      float all[kWarp];
      for (int lane = 0; lane < kWarp; ++lane) {
        std::memcpy(&all[lane], lanes + lane * kExchangeBytes + i * sizeof(float), sizeof(float));
      }
      for (int half = kWarp / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) all[lane] = op(all[lane], all[lane + half]);
      }
      std::memcpy(lanes + i * sizeof(float), all, sizeof(float));
    }
    reduced = 1;
  }
  std::memcpy(values, lanes, count * sizeof(float));
}

void QuadReduceAll(float* values, int count, float (*op)(float, float), Site site) {
  const uint8_t* const lanes = Gather(~0u, values, count * sizeof(float), site);
  const int lane = Lane();
  for (int i = 0; i < count; ++i) {
    const auto of = [&](int other) {
      float value;
      std::memcpy(&value, lanes + other * kExchangeBytes + i * sizeof(float), sizeof(value));
      return value;
    };
    values[i] = op(op(of(lane), of(lane ^ 1)), op(of(lane ^ 2), of(lane ^ 3)));
  }
}

void LoadMatrices(uint32_t r[4], const void* row, bool transposed, Site site) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) Fail("ldmatrix of a misaligned row");
  CheckAccess(reinterpret_cast<uintptr_t>(row), 16, false, false);
  const Warp<const void*> rows{Gather(~0u, &row, sizeof(row), site)};
  const int lane = Lane();
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto element = [&](int i, int j) {
      uint16_t value;
      std::memcpy(&value, static_cast<const char*>(rows[matrix * 8 + i]) + 2 * j, 2);
      return uint32_t{value};
    };
    const int i = lane / 4, j = lane % 4 * 2;
    r[matrix] = transposed ? element(j, i) | element(j + 1, i) << 16
                           : element(i, j) | element(i, j + 1) << 16;
  }
}

void CopyAsync16(void* to, const void* from, bool exists, Site site) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    Fail("%s:%d: cp.async between misaligned addresses", site.file, site.line);
  }
  if (exists) CheckAccess(reinterpret_cast<uintptr_t>(from), 16, false, false);
  CheckAccess(reinterpret_cast<uintptr_t>(to), 16, true, false);
  Copies& own = OwnCopies();
  if (own.end - own.begin == Copies::kMost) Fail("%s:%d: too many copies", site.file, site.line);
  Copies::Copy& copy = own.copies[own.end++ % Copies::kMost];
  copy = {to, own.group, {}};
  if (exists) std::memcpy(copy.bytes, from, 16);
  std::memset(to, 0xa5, 16);  // not there yet
}

void CopyAsyncCommit() { ++OwnCopies().group; }

void CopyAsyncWait(int newer) {
  Copies& own = OwnCopies();
  for (; own.begin < own.end; ++own.begin) {
    const Copies::Copy& copy = own.copies[own.begin % Copies::kMost];
    if (copy.group + newer >= own.group) return;
    std::memcpy(copy.to, copy.bytes, 16);
  }
}

}  // namespace cuda_emulator
