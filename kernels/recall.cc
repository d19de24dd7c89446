#include "kernels/recall.h"

#include <cmath>
#include <cstring>

#include "kernels/batch.h"
#include "kernels/bfloat16.h"

namespace hydrant::kernels {
namespace {

size_t KeyBytes(int head_dim) {
  return static_cast<size_t>((head_dim + 1) / 2) * kBlockSlots * 2 * sizeof(uint16_t);
}

// Of element d of the key at `place`.
size_t KeyOffset(int place, int d) {
  return sizeof(uint16_t) * (d / 2 * 2 * kBlockSlots + place * 2 + d % 2);
}

size_t PositionOffset(int head_dim, int place) {
  return KeyBytes(head_dim) + place * sizeof(int32_t);
}

}  // namespace

size_t EvictedStripBytes(int head_dim) { return PositionOffset(head_dim, kBlockSlots); }

void WriteEvictedKey(uint8_t* strip, int head_dim, int place, const float* key, int32_t position) {
  for (int d = 0; d < head_dim + head_dim % 2; ++d) {
    const uint16_t element = d < head_dim ? FloatToBF16(key[d]) : 0;
    std::memcpy(strip + KeyOffset(place, d), &element, sizeof(element));
  }
  std::memcpy(strip + PositionOffset(head_dim, place), &position, sizeof(position));
}

int32_t ReadEvictedKey(const uint8_t* strip, int head_dim, int place, float* key) {
  for (int d = 0; d < head_dim; ++d) {
    uint16_t element;
    std::memcpy(&element, strip + KeyOffset(place, d), sizeof(element));
    key[d] = BF16ToFloat(element);
  }
  int32_t position;
  std::memcpy(&position, strip + PositionOffset(head_dim, place), sizeof(position));
  return position;
}

float RecallOf(const ExpSum& held, const ExpSum& evicted) {
  if (evicted.sum == 0.0f) return 1.0f;
  const double ratio =
      double{evicted.sum} / held.sum * std::exp(double{evicted.largest} - double{held.largest});
  return static_cast<float>(1.0 / (1.0 + ratio));
}

}  // namespace hydrant::kernels
