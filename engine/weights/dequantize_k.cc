// ggml's blocks of 256 values (ggml-common.h). The values come in groups, of 32 or of 16, each with
// a scale, and some with a minimum, that is itself quantised. In what follows g is a value's group.
//
//   Q2_K: uint8 s[16]; uint8 q[64]; f16 d; f16 m
//     value = d * (s[g] & 15) * q2 - m * (s[g] >> 4)          q2: 2 bits of q
//   Q3_K: uint8 h[32]; uint8 q[64]; uint8 s[12]; f16 d
//     value = d * (s6[g] - 32) * (q2 + 4 * bit - 4)           bit: 1 bit of h; s6: 6 bits of s
//   Q4_K: f16 d; f16 m; uint8 s[12]; uint8 q[128]
//     value = d * s6[g] * q4 - m * m6[g]                      s6, m6: 6 bits of s
//   Q5_K: f16 d; f16 m; uint8 s[12]; uint8 h[32]; uint8 q[128]
//     value = d * s6[g] * (q4 + 16 * bit) - m * m6[g]
//   Q6_K: uint8 q[128]; uint8 h[64]; int8 s[16]; f16 d
//     value = d * s[g] * (q4 + 16 * h2 - 32)                  h2: 2 bits of h
//   IQ4_XS: f16 d; uint16 sh; uint8 sl[4]; uint8 q[128]
//     value = d * (s6[g] - 32) * kIq4Levels[q4]               s6: 4 bits of sl, 2 of sh

#include "engine/weights/dequantize.h"
#include "engine/weights/half.h"

namespace hydrant::engine::weights {
namespace {

constexpr int kBlock = 256;

// The scale and the minimum of group g of 8 in the 12 bytes of Q4_K and Q5_K: the low bits of the
// first four of each are in bytes of their own, whose two high bits complete the last four.
struct ScaleAndMin {
  int scale, min;
};

ScaleAndMin UnpackScaleAndMin(const uint8_t* s, int g) {
  if (g < 4) return {s[g] & 63, s[g + 4] & 63};
  return {(s[g + 4] & 15) | s[g - 4] >> 6 << 4, s[g + 4] >> 4 | s[g] >> 6 << 4};
}

// Of Q3_K: scale g of 16, of 6 bits, in 12 bytes; the last four bytes hold all the high bits.
int UnpackQ3Scale(const uint8_t* s, int g) {
  const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
  return low | (s[8 + g % 4] >> (2 * (g / 4)) & 3) << 4;
}

}  // namespace

void DequantizeQ2K(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 84, out += kBlock) {
    const uint8_t* q = in + 16;
    const float d = LoadF16(in + 80), m = LoadF16(in + 82);
    for (int g = 0; g < 16; ++g) {
      // A half block is four times 32 values, of two bits each in the same 32 bytes.
      const uint8_t* bytes = q + g / 8 * 32 + g % 2 * 16;
      const int shift = g % 8 / 2 * 2;
      const float scale = d * static_cast<float>(in[g] & 15);
      const float min = m * static_cast<float>(in[g] >> 4);
      for (int j = 0; j < 16; ++j) {
        out[16 * g + j] = scale * static_cast<float>(bytes[j] >> shift & 3) - min;
      }
    }
  }
}

void DequantizeQ3K(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 110, out += kBlock) {
    const float d = LoadF16(in + 108);
    for (int g = 0; g < 16; ++g) {
      const uint8_t* low = in + 32 + g / 8 * 32 + g % 2 * 16;
      const uint8_t* high = in + g % 2 * 16;
      const int shift = g % 8 / 2 * 2, bit = g / 2;
      const float scale = d * static_cast<float>(UnpackQ3Scale(in + 96, g) - 32);
      for (int j = 0; j < 16; ++j) {
        const int q = (low[j] >> shift & 3) + 4 * (high[j] >> bit & 1) - 4;
        out[16 * g + j] = scale * static_cast<float>(q);
      }
    }
  }
}

void DequantizeQ4K(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 144, out += kBlock) {
    const float d = LoadF16(in), m = LoadF16(in + 2);
    for (int g = 0; g < 8; ++g) {
      const ScaleAndMin packed = UnpackScaleAndMin(in + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = m * static_cast<float>(packed.min);
      const uint8_t* q = in + 16 + g / 2 * 32;
      const int shift = g % 2 * 4;
      for (int j = 0; j < 32; ++j) {
        out[32 * g + j] = scale * static_cast<float>(q[j] >> shift & 15) - min;
      }
    }
  }
}

void ReadGroupsQ4K(const uint8_t* in, int64_t n, uint8_t* __restrict levels,
                   kernels::Int4Range* ranges) {
  for (int64_t i = 0; i < n; i += kBlock, in += 144, levels += kBlock) {
    const float d = LoadF16(in), m = LoadF16(in + 2);
    for (int g = 0; g < 8; ++g, ++ranges) {
      const ScaleAndMin packed = UnpackScaleAndMin(in + 4, g);
      *ranges = {kernels::FloatToF16(d * static_cast<float>(packed.scale)),
                 kernels::FloatToF16(-m * static_cast<float>(packed.min))};
      const uint8_t* q = in + 16 + g / 2 * 32;
      const int shift = g % 2 * 4;
      for (int j = 0; j < 32; ++j) levels[32 * g + j] = q[j] >> shift & 15;
    }
  }
}

void DequantizeQ5K(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 176, out += kBlock) {
    const float d = LoadF16(in), m = LoadF16(in + 2);
    const uint8_t* high = in + 16;
    for (int g = 0; g < 8; ++g) {
      const ScaleAndMin packed = UnpackScaleAndMin(in + 4, g);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = m * static_cast<float>(packed.min);
      const uint8_t* low = in + 48 + g / 2 * 32;
      const int shift = g % 2 * 4;
      for (int j = 0; j < 32; ++j) {
        const int q = (low[j] >> shift & 15) | (high[j] >> g & 1) << 4;
        out[32 * g + j] = scale * static_cast<float>(q) - min;
      }
    }
  }
}

void DequantizeQ6K(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 210, out += kBlock) {
    const float d = LoadF16(in + 208);
    for (int g = 0; g < 16; ++g) {
      // A half block is four times 32 values: two of them low halves of 64 bytes, two high halves.
      const int part = g % 8 / 2;
      const uint8_t* low = in + g / 8 * 64 + part % 2 * 32 + g % 2 * 16;
      const uint8_t* high = in + 128 + g / 8 * 32 + g % 2 * 16;
      const float scale = d * static_cast<float>(static_cast<int8_t>(in[192 + g]));
      for (int j = 0; j < 16; ++j) {
        const int q = (low[j] >> (part / 2 * 4) & 15) | (high[j] >> (2 * part) & 3) << 4;
        out[16 * g + j] = scale * static_cast<float>(q - 32);
      }
    }
  }
}

void DequantizeIq4Xs(const uint8_t* in, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; i += kBlock, in += 136, out += kBlock) {
    const float d = LoadF16(in);
    const int scales_high = LoadU16(in + 2);
    for (int g = 0; g < 8; ++g) {
      const int packed = (in[4 + g / 2] >> (g % 2 * 4) & 15) | (scales_high >> (2 * g) & 3) << 4;
      const float scale = d * static_cast<float>(packed - 32);
      const uint8_t* q = in + 8 + 16 * g;
      for (int j = 0; j < 16; ++j) {
        out[32 * g + j] = scale * static_cast<float>(kIq4Levels[q[j] & 15]);
        out[32 * g + 16 + j] = scale * static_cast<float>(kIq4Levels[q[j] >> 4]);
      }
    }
  }
}

}  // namespace hydrant::engine::weights
