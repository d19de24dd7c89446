#include "engine/weights/dequantize.h"

#include <bit>
#include <cstring>

#include "engine/weights/half.h"

namespace hydrant::engine::weights {
namespace {

constexpr int kBlock = 32;
static_assert(kBlock == kernels::kInt4Group);

void ReadNibbles(const uint8_t* in, uint8_t* __restrict levels) {
  for (int j = 0; j < kBlock / 2; ++j) {
    levels[j] = in[j] & 15;
    levels[j + kBlock / 2] = in[j] >> 4;
  }
}

}  // namespace

void DequantizeF32(const uint8_t* in, int64_t n, float* out) {
  std::memcpy(out, in, static_cast<size_t>(n) * sizeof(float));
}

void DequantizeF16(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = LoadF16(in + 2 * i);
}

void DequantizeBf16(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(LoadU16(in + 2 * i)) << 16);
  }
}

void DequantizeQ8_0(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock, out += kBlock) {
    const float d = LoadF16(in);
    for (int j = 0; j < kBlock; ++j)
      out[j] = d * static_cast<float>(static_cast<int8_t>(in[2 + j]));
  }
}

void DequantizeQ4_0(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock / 2, out += kBlock) {
    const float d = LoadF16(in);
    for (int j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>((in[2 + j] & 15) - 8);
      out[j + kBlock / 2] = d * static_cast<float>((in[2 + j] >> 4) - 8);
    }
  }
}

void DequantizeQ4_1(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 4 + kBlock / 2, out += kBlock) {
    const float d = LoadF16(in);
    const float m = LoadF16(in + 2);
    for (int j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>(in[4 + j] & 15) + m;
      out[j + kBlock / 2] = d * static_cast<float>(in[4 + j] >> 4) + m;
    }
  }
}

void DequantizeQ5_0(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 6 + kBlock / 2, out += kBlock) {
    const float d = LoadF16(in);
    const uint32_t high = LoadU32(in + 2);
    for (int j = 0; j < kBlock / 2; ++j) {
      const int first = (in[6 + j] & 15) | (high >> j & 1) << 4;
      const int second = (in[6 + j] >> 4) | (high >> (j + kBlock / 2) & 1) << 4;
      out[j] = d * static_cast<float>(first - 16);
      out[j + kBlock / 2] = d * static_cast<float>(second - 16);
    }
  }
}

void DequantizeQ5_1(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 8 + kBlock / 2, out += kBlock) {
    const float d = LoadF16(in);
    const float m = LoadF16(in + 2);
    const uint32_t high = LoadU32(in + 4);
    for (int j = 0; j < kBlock / 2; ++j) {
      const int first = (in[8 + j] & 15) | (high >> j & 1) << 4;
      const int second = (in[8 + j] >> 4) | (high >> (j + kBlock / 2) & 1) << 4;
      out[j] = d * static_cast<float>(first) + m;
      out[j + kBlock / 2] = d * static_cast<float>(second) + m;
    }
  }
}

void DequantizeIq4Nl(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock / 2, out += kBlock) {
    const float d = LoadF16(in);
    for (int j = 0; j < kBlock / 2; ++j) {
      out[j] = d * static_cast<float>(kIq4Levels[in[2 + j] & 15]);
      out[j + kBlock / 2] = d * static_cast<float>(kIq4Levels[in[2 + j] >> 4]);
    }
  }
}

void ReadGroupsQ4_0(const uint8_t* in, int64_t n, uint8_t* __restrict levels,
                    kernels::Int4Range* ranges) {
  for (int64_t i = 0; i < n; i += kBlock, in += 2 + kBlock / 2, levels += kBlock, ++ranges) {
    *ranges = {LoadU16(in), kernels::FloatToF16(LoadF16(in) * -8.0f)};
    ReadNibbles(in + 2, levels);
  }
}

void ReadGroupsQ4_1(const uint8_t* in, int64_t n, uint8_t* __restrict levels,
                    kernels::Int4Range* ranges) {
  for (int64_t i = 0; i < n; i += kBlock, in += 4 + kBlock / 2, levels += kBlock, ++ranges) {
    *ranges = {LoadU16(in), LoadU16(in + 2)};
    ReadNibbles(in + 4, levels);
  }
}

}  // namespace hydrant::engine::weights
