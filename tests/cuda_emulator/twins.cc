#include <bit>
#include <cstring>
#include <deque>
#include <vector>

#include "tests/cuda_emulator/include/mma_twins.h"
#include "tests/cuda_emulator/machine.h"

namespace cuda_emulator {
namespace {

struct Fragments {
  uint32_t a[4], b[2];
};

struct Copy {
  void* to;
  uint8_t bytes[16];
};

// Copies of each thread that are under way, by group, the last one open.
struct Copies {
  uint32_t block_serial = 0;
  std::deque<std::vector<Copy>> groups;
};

Copies& OwnCopies() {
  static std::vector<Copies>* const all = new std::vector<Copies>(kMaxThreads);
  const Machine& m = TheMachine();
  Copies& own = (*all)[m.current->thread];
  if (own.block_serial != m.block_serial) {
    own.block_serial = m.block_serial;
    own.groups.assign(1, {});
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

Warp<Fragments> GatherFragments(const uint32_t a[4], const uint32_t b[2], Site site) {
  Fragments own;
  std::memcpy(own.a, a, sizeof(own.a));
  std::memcpy(own.b, b, sizeof(own.b));
  return {Gather(~0u, &own, sizeof(own), site)};
}

float BF16(uint32_t word, int half) {
  return std::bit_cast<float>(half == 0 ? word << 16 : word & 0xffff0000u);
}

int32_t Byte(uint32_t word, int i) { return static_cast<int8_t>(word >> (8 * i)); }

}  // namespace

// Lane l of row group g = l / 4 and column group t = l % 4 holds of a 16 x 32-byte A: rows g and
// g + 8, words t and t + 4, in the order (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); of an 8
// column B, column g: words t and t + 4; of C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
void MmaBF16(float c[4], const uint32_t a[4], const uint32_t b[2], Site site) {
  const Warp<Fragments> all = GatherFragments(a, b, site);
  const int lane = Lane();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4, high = i / 2, column = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (int word = 0; word < 8; ++word) {
      const uint32_t x = all[row * 4 + word % 4].a[high + word / 4 * 2];
      const uint32_t y = all[column * 4 + word % 4].b[word / 4];
      sum += BF16(x, 0) * BF16(y, 0);
      sum += BF16(x, 1) * BF16(y, 1);
    }
    c[i] = sum;
  }
}

void MmaInt8(int32_t c[4], const uint32_t a[4], const uint32_t b[2], Site site) {
  const Warp<Fragments> all = GatherFragments(a, b, site);
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

void CopyAsync16(void* to, const void* from, Site site) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
    Fail("%s:%d: cp.async between misaligned addresses", site.file, site.line);
  }
  CheckAccess(reinterpret_cast<uintptr_t>(from), 16, false, false);
  CheckAccess(reinterpret_cast<uintptr_t>(to), 16, true, false);
  Copy copy{to, {}};
  std::memcpy(copy.bytes, from, 16);
  std::memset(to, 0xa5, 16);  // not there yet
  OwnCopies().groups.back().push_back(copy);
}

void CopyAsyncCommit() { OwnCopies().groups.emplace_back(); }

void CopyAsyncWait(int newer) {
  Copies& own = OwnCopies();
  while (static_cast<int>(own.groups.size()) - 1 > newer) {
    for (const Copy& copy : own.groups.front()) std::memcpy(copy.to, copy.bytes, 16);
    own.groups.pop_front();
  }
}

}  // namespace cuda_emulator
