#include "kernels/quantization.h"

#include <algorithm>
#include <cmath>

namespace hydrant::kernels {

int64_t HadamardBlock(int64_t cols) {
  int64_t block = 1;
  while (block < 64 && cols % (2 * block) == 0) block *= 2;
  return block;
}

void HadamardRotate(float* row, int64_t cols) {
  const int64_t block = HadamardBlock(cols);
  if (block == 1) return;
  const float normalise = static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
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

}  // namespace hydrant::kernels
