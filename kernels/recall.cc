#include "kernels/recall.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

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

ExpSum SumEvicted(const RecallAudit& audit, int strip, int head_dim, int32_t position,
                  int32_t window, float scale, const float* query, float* key) {
  const size_t offset = strip * EvictedStripBytes(head_dim);
  ExpSum total{-std::numeric_limits<float>::infinity(), 0.0f};
  for (int32_t i = 0; i < audit.count; ++i) {
    const int32_t key_position =
        ReadEvictedKey(audit.blocks[i / kBlockSlots] + offset, head_dim, i % kBlockSlots, key);
    if (window > 0 && key_position <= position - window) continue;
    float logit = 0.0f;
    for (int d = 0; d < head_dim; ++d) logit += RoundToBF16(query[d]) * key[d];
    logit *= scale;
    // The terms so far, in relation to the new largest.
    const float largest = std::max(total.largest, logit);
    total.sum = total.sum * std::exp(total.largest - largest) + std::exp(logit - largest);
    total.largest = largest;
  }
  return total;
}

float RecallOf(const ExpSum& held, const ExpSum& evicted) {
  if (evicted.sum == 0.0f) return 1.0f;
  const double ratio =
      double{evicted.sum} / held.sum * std::exp(double{evicted.largest} - double{held.largest});
  return static_cast<float>(1.0 / (1.0 + ratio));
}

}  // namespace hydrant::kernels
