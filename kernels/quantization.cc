#include "kernels/quantization.h"

#include <algorithm>
#include <cmath>

#include "kernels/float16.h"

namespace hydrant::kernels {

int64_t HadamardBlock(int64_t cols) {
  int64_t block = 1;
  while (block < 64 && cols % (2 * block) == 0) block *= 2;
  return block;
}

float HadamardNormalise(int64_t block) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
}

void HadamardRotate(float* row, int64_t cols) {
  const int64_t block = HadamardBlock(cols);
  if (block == 1) return;
  const float normalise = HadamardNormalise(block);
  for (float* values = row; values != row + cols; values += block) {
    for (int64_t stride = 1; stride < block; stride *= 2) {
      for (int64_t i = 0; i < block; ++i) {
        if ((i & stride) != 0) continue;
        const float a = values[i];
        const float b = values[i + stride];
        values[i] = a + b;
        values[i + stride] = a - b;
      }
    }
    for (int64_t i = 0; i < block; ++i) values[i] *= normalise;
  }
}

float QuantizeInt8(const float* row, int64_t cols, int8_t* values) {
  float absmax = 0.0f;
  for (int64_t i = 0; i < cols; ++i) absmax = std::max(absmax, std::fabs(row[i]));
  if (absmax < kSmallestInt8AbsMax) {
    std::fill(values, values + cols, int8_t{0});
    return 0.0f;
  }
  const float inverse = 127.0f / absmax;
  for (int64_t i = 0; i < cols; ++i) {
    const float rounded = std::nearbyint(row[i] * inverse);
    // Written so that NaN, which compares false, ends inside the range too.
    values[i] = static_cast<int8_t>(rounded > -127.0f ? std::min(rounded, 127.0f) : -127.0f);
  }
  return absmax / 127.0f;
}

void QuantizeGroups(const float* row, int64_t cols, int64_t group, int bits, uint8_t* levels,
                    GroupRange* ranges) {
  const float max_level = static_cast<float>((1 << bits) - 1);
  for (int64_t begin = 0; begin < cols; begin += group, ++ranges) {
    const int64_t end = std::min(begin + group, cols);
    float smallest = row[begin], largest = row[begin];
    for (int64_t i = begin + 1; i < end; ++i) {
      smallest = std::min(row[i], smallest);
      largest = std::max(row[i], largest);
    }
    *ranges = MakeGroupRange(smallest, largest, max_level);
    const float zero = RangeNumber(ranges->zero), scale = RangeNumber(ranges->scale);
    const float inverse = scale >= kSmallestInt8AbsMax ? 1.0f / scale : 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      const float level = std::nearbyint((row[i] - zero) * inverse);
      // Written so that NaN, which compares false, ends inside the range too.
      levels[i] = static_cast<uint8_t>(level > 0.0f ? std::min(level, max_level) : 0.0f);
    }
  }
}

bool QuantizeInt4(const float* row, int64_t cols, uint8_t* levels, Int4Range* ranges) {
  constexpr float kMaxLevel = 15.0f;
  bool finite = true;
  for (int64_t begin = 0; begin < cols; begin += kInt4Group, ++ranges) {
    const int64_t end = std::min(begin + kInt4Group, cols);
    const auto [smallest, largest] = std::minmax_element(row + begin, row + end);
    ranges->zero = FloatToF16(*smallest);
    const float zero = F16ToFloat(ranges->zero);
    ranges->scale = FloatToF16((*largest - zero) * (1.0f / kMaxLevel));
    const float scale = F16ToFloat(ranges->scale);
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int64_t i = begin; i < end; ++i) {
      const float level = std::nearbyint((row[i] - zero) * inverse);
      // Written so that NaN, which compares false, ends inside the range too.
      levels[i] = static_cast<uint8_t>(level > 0.0f ? std::min(level, kMaxLevel) : 0.0f);
      finite = finite && std::isfinite(row[i]);
    }
    finite = finite && IsFiniteF16(ranges->zero) && IsFiniteF16(ranges->scale);
  }
  return finite;
}

}  // namespace hydrant::kernels
