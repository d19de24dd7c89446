#include "engine/weights/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/weights/ggml_types.h"
#include "engine/weights/gguf.h"

namespace hydrant::engine::weights {
namespace {

// IEEE 754 binary16, from its definition.
float HalfValue(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return static_cast<float>((half & 0x8000) != 0 ? -value : value);
}

std::vector<uint8_t> AllHalves() {
  std::vector<uint8_t> bytes;
  for (uint32_t half = 0; half < 65536; ++half) {
    bytes.push_back(static_cast<uint8_t>(half));
    bytes.push_back(static_cast<uint8_t>(half >> 8));
  }
  return bytes;
}

TEST(DequantizeTest, EveryF16) {
  std::vector<float> out(65536);
  DequantizeF16(AllHalves().data(), 65536, out.data());
  for (uint32_t half = 0; half < 65536; ++half) {
    const float expected = HalfValue(static_cast<uint16_t>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(out[half])) << half;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(out[half]), std::bit_cast<uint32_t>(expected)) << half;
    }
  }
}

TEST(DequantizeTest, EveryBf16) {
  std::vector<float> out(65536);
  DequantizeBf16(AllHalves().data(), 65536, out.data());
  for (uint32_t half = 0; half < 65536; ++half) {
    EXPECT_EQ(std::bit_cast<uint32_t>(out[half]), half << 16);
  }
}

TEST(DequantizeTest, F32AtAnyAlignment) {
  const std::vector<float> values = {1.5f, -0.0f, 3e38f, 1e-45f, -7};
  std::vector<uint8_t> bytes(1 + values.size() * sizeof(float));
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(float));
  std::vector<float> out(values.size());
  DequantizeF32(bytes.data() + 1, static_cast<int64_t>(out.size()), out.data());
  EXPECT_EQ(out, values);
}

// Random blocks with finite scales; one byte of lead so that nothing is aligned.
std::vector<uint8_t> RandomBlocks(size_t count, size_t block_bytes, int halves) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(1 + count * block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t block = 0; block < count; ++block) {
    for (int i = 0; i < halves; ++i) bytes[1 + block * block_bytes + 2 * i + 1] &= 0xbb;
  }
  return bytes;
}

uint16_t HalfAt(const uint8_t* data) { return static_cast<uint16_t>(data[0] | data[1] << 8); }

TEST(DequantizeTest, Q8_0) {
  constexpr size_t kBlocks = 9;
  const std::vector<uint8_t> bytes = RandomBlocks(kBlocks, 34, 1);
  std::vector<float> out(kBlocks * 32);
  DequantizeQ8_0(bytes.data() + 1, kBlocks * 32, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const uint8_t* block = bytes.data() + 1 + i / 32 * 34;
    const int q = block[2 + i % 32] < 128 ? block[2 + i % 32] : block[2 + i % 32] - 256;
    EXPECT_EQ(out[i], HalfValue(HalfAt(block)) * static_cast<float>(q)) << i;
  }
}

int Nibble(const uint8_t* q, size_t i) { return i < 16 ? q[i] % 16 : q[i - 16] / 16; }

TEST(DequantizeTest, Q4_0) {
  constexpr size_t kBlocks = 9;
  const std::vector<uint8_t> bytes = RandomBlocks(kBlocks, 18, 1);
  std::vector<float> out(kBlocks * 32);
  DequantizeQ4_0(bytes.data() + 1, kBlocks * 32, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const uint8_t* block = bytes.data() + 1 + i / 32 * 18;
    const int q = Nibble(block + 2, i % 32) - 8;
    EXPECT_EQ(out[i], HalfValue(HalfAt(block)) * static_cast<float>(q)) << i;
  }
}

TEST(DequantizeTest, Q4_1) {
  constexpr size_t kBlocks = 9;
  const std::vector<uint8_t> bytes = RandomBlocks(kBlocks, 20, 2);
  std::vector<float> out(kBlocks * 32);
  DequantizeQ4_1(bytes.data() + 1, kBlocks * 32, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const uint8_t* block = bytes.data() + 1 + i / 32 * 20;
    const double product =
        static_cast<double>(HalfValue(HalfAt(block))) * Nibble(block + 4, i % 32);
    // One rounding at most lies between a fused and a separate addition.
    EXPECT_FLOAT_EQ(out[i], static_cast<float>(product + HalfValue(HalfAt(block + 2)))) << i;
  }
}

// Random blocks of every quantised type that is read, with the values that gguf-py makes of them.
TEST(DequantizeTest, EveryBlockTypeAsGgufPyReadsIt) {
  const auto file = GgufFile::Open(std::string(HYDRANT_TEST_DATA) + "/quantized_blocks.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  std::string seen;
  for (const GgufTensor& blocks : (*file)->tensors()) {
    if (blocks.name.ends_with(".values")) continue;
    seen += blocks.name + " ";
    const GgufTensor* expected = (*file)->FindTensor(blocks.name + ".values");
    ASSERT_NE(expected, nullptr) << blocks.name;
    const GgmlType* type = FindGgmlType(blocks.type);
    ASSERT_NE(type->dequantize, nullptr) << blocks.name;
    EXPECT_EQ(type->name, blocks.name);
    const int64_t count = blocks.dims[0] * blocks.dims[1];
    ASSERT_EQ(expected->bytes, static_cast<uint64_t>(count) * sizeof(float));
    std::vector<float> out(static_cast<size_t>(count));
    type->dequantize(blocks.data, count, out.data());
    EXPECT_EQ(std::memcmp(out.data(), expected->data, expected->bytes), 0) << blocks.name;
  }
  EXPECT_EQ(seen, "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS ");
}

// What int4 keeps of a 4-bit block are its numbers, but for a rounding to f16 in Q4_K.
TEST(DequantizeTest, GroupsOfFourBitsAreTheBlocksNumbers) {
  const auto file = GgufFile::Open(std::string(HYDRANT_TEST_DATA) + "/quantized_blocks.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  std::string seen;
  for (const GgufTensor& blocks : (*file)->tensors()) {
    const GgmlType* type = FindGgmlType(blocks.type);
    if (type->read_groups == nullptr) continue;
    seen += blocks.name + " ";
    const auto count = static_cast<size_t>(blocks.dims[0] * blocks.dims[1]);
    std::vector<float> expected(count);
    type->dequantize(blocks.data, static_cast<int64_t>(count), expected.data());
    std::vector<uint8_t> levels(count);
    std::vector<kernels::Int4Range> ranges(count / kernels::kInt4Group);
    type->read_groups(blocks.data, static_cast<int64_t>(count), levels.data(), ranges.data());
    for (size_t i = 0; i < count; ++i) {
      const kernels::Int4Range range = ranges[i / kernels::kInt4Group];
      const double zero = HalfValue(range.zero), step = HalfValue(range.scale) * levels[i];
      ASSERT_LE(levels[i], 15);
      const double magnitude = std::fabs(zero) + std::fabs(step);
      const double tolerance =
          type->block_size == 32 ? std::ldexp(magnitude, -23) : std::ldexp(magnitude, -11) + 1e-6;
      ASSERT_NEAR(zero + step, expected[i], tolerance) << blocks.name << ", number " << i;
    }
  }
  EXPECT_EQ(seen, "Q4_0 Q4_1 Q4_K ");
}

TEST(DequantizeTest, TypesByNumber) {
  ASSERT_NE(FindGgmlType(3), nullptr);
  EXPECT_STREQ(FindGgmlType(3)->name, "Q4_1");
  EXPECT_EQ(FindGgmlType(3)->block_bytes, 20u);
  ASSERT_NE(FindGgmlType(18), nullptr);
  EXPECT_STREQ(FindGgmlType(18)->name, "IQ3_XXS");
  EXPECT_EQ(FindGgmlType(18)->dequantize, nullptr);
  EXPECT_EQ(FindGgmlType(5), nullptr);
  EXPECT_EQ(ReadableGgmlTypes(),
            "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, "
            "IQ4_XS, BF16");
}

}  // namespace
}  // namespace hydrant::engine::weights
