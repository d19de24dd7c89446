// The ops that look at one row at a time, on every backend, against formulas in double.

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "tests/kernels/backends.h"

namespace hydrant::kernels {
namespace {

class BackendRowsTest : public BackendTest {};

std::unique_ptr<Table> MakeTable(Backend& backend, const std::vector<float>& values, int64_t rows,
                                 int64_t cols, const PackedMatrix* packed = nullptr) {
  auto table = backend.MakeTable(SourceOf(values, rows, cols), packed);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

TEST_P(BackendRowsTest, EmbedScalesRowsOfTheTable) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  const std::vector<float> values = RandomValues(1, 10 * 37);
  const std::vector<int32_t> ids = {9, 0, 3, 3, 9};
  const DeviceRows y = ToDevice(*backend, std::vector<float>(5 * 37, NAN), 5, 37);
  const std::unique_ptr<Table> table = MakeTable(*backend, values, 10, 37);
  backend->Embed(*table, ids, 1.5f, y.matrix);
  std::vector<float> expected;
  for (const int32_t id : ids) {
    for (int c = 0; c < 37; ++c) expected.push_back(values[id * 37 + c] * 1.5f);
  }
  ExpectIdentical(ToHost(*backend, y.matrix), expected);
}

// Numbers of any format, with and without a packed matrix beside that may or may not hold them.
TEST_P(BackendRowsTest, EmbedGivesEveryNumberToTheBit) {
  constexpr int64_t kTableRows = 19, kCols = 37;
  const auto as_it_is = [](float value) { return value; };
  const auto as_f16 = [](float value) { return F16ToFloat(FloatToF16(value)); };
  std::vector<int32_t> ids;
  for (int32_t id = kTableRows - 1; id >= 0; --id) ids.push_back(id);
  for (float (*round)(float) : {+as_it_is, +as_f16, &RoundToBF16}) {
    std::vector<float> values = RandomValues(1, kTableRows * kCols, 3.0f);
    for (float& value : values) value = round(value);
    std::vector<float> expected;
    for (const int32_t id : ids) {
      expected.insert(expected.end(), values.begin() + id * kCols,
                      values.begin() + (id + 1) * kCols);
    }
    std::unique_ptr<Backend> backend = MakeBackend(GetParam());
    const DeviceRows y = ToDevice(*backend, expected, kTableRows, kCols);
    const auto check = [&](const PackedMatrix* packed) {
      const std::unique_ptr<Table> table = MakeTable(*backend, values, kTableRows, kCols, packed);
      backend->Embed(*table, ids, 2.0f, y.matrix);
      backend->Embed(*table, ids, 1.0f, y.matrix);
      ExpectIdentical(ToHost(*backend, y.matrix), expected);
      return table->bytes();
    };
    check(nullptr);
    for (const WeightDType dtype : {WeightDType::kF32, WeightDType::kBF16, WeightDType::kInt8}) {
      SCOPED_TRACE(WeightDTypeName(dtype));
      auto packed = backend->Pack(SourceOf(values, kTableRows, kCols), dtype);
      ASSERT_TRUE(packed.ok());
      const size_t bytes = check(packed->get());
      // What is packed without a loss is not kept twice.
      const bool holds =
          dtype == WeightDType::kF32 || (dtype == WeightDType::kBF16 && round == &RoundToBF16);
      if (holds) {
        EXPECT_EQ(bytes, 0u);
      }
    }
  }
}

TEST_P(BackendRowsTest, RmsNormDividesByTheRootOfTheMeanSquare) {
  for (const int64_t cols : {1, 5, 16, 33, 64, 576, 1000}) {
    for (const float scale : {1e-3f, 1.0f, 300.0f}) {
      SCOPED_TRACE(testing::Message() << cols << " columns times " << scale);
      constexpr int64_t kRows = 5;
      constexpr double kEps = 1e-5;
      std::unique_ptr<Backend> backend = MakeBackend(GetParam());
      const std::vector<float> x = RandomValues(cols, kRows * cols, scale);
      const std::vector<float> weight = RandomValues(2, cols);
      std::vector<double> expected;
      for (int64_t row = 0; row < kRows; ++row) {
        double sum = 0.0;
        for (int64_t c = 0; c < cols; ++c) sum += std::pow(double(x[row * cols + c]), 2);
        for (int64_t c = 0; c < cols; ++c) {
          expected.push_back(x[row * cols + c] / std::sqrt(sum / cols + kEps) * weight[c]);
        }
      }
      const Buffer w = backend->Upload(weight);
      const DeviceRows in = ToDevice(*backend, x, kRows, cols);
      const DeviceRows out = ToDevice(*backend, std::vector<float>(kRows * cols, NAN), kRows, cols);
      backend->RmsNorm(in.matrix, w, kEps, out.matrix);
      const std::vector<float> together = ToHost(*backend, out.matrix);
      ExpectClose(together, expected, 2e-6);
      for (int64_t row = 0; row < kRows; ++row) {  // each row alone, bit for bit
        const Matrix in_row{in.matrix.f32() + row * cols, 1, cols};
        const DeviceRows alone = ToDevice(*backend, std::vector<float>(cols, NAN), 1, cols);
        backend->RmsNorm(in_row, w, kEps, alone.matrix);
        ExpectIdentical(ToHost(*backend, alone.matrix),
                        {together.begin() + row * cols, together.begin() + (row + 1) * cols});
      }
    }
  }
}

TEST_P(BackendRowsTest, LayerNormTakesMeanAndVarianceOut) {
  for (const int64_t cols : {1, 5, 16, 33, 64, 768, 1000}) {
    for (const float offset : {0.0f, 50.0f}) {
      SCOPED_TRACE(testing::Message() << cols << " columns around " << offset);
      constexpr int64_t kRows = 5;
      constexpr double kEps = 1e-5;
      std::unique_ptr<Backend> backend = MakeBackend(GetParam());
      std::vector<float> x = RandomValues(cols, kRows * cols, 3.0f);
      for (float& value : x) value += offset;
      const std::vector<float> weight = RandomValues(2, cols), bias = RandomValues(3, cols);
      std::vector<double> expected;
      for (int64_t row = 0; row < kRows; ++row) {
        double mean = 0.0, variance = 0.0;
        for (int64_t c = 0; c < cols; ++c) mean += x[row * cols + c] / double(cols);
        for (int64_t c = 0; c < cols; ++c) {
          variance += std::pow(x[row * cols + c] - mean, 2) / double(cols);
        }
        for (int64_t c = 0; c < cols; ++c) {
          expected.push_back((x[row * cols + c] - mean) / std::sqrt(variance + kEps) * weight[c] +
                             bias[c]);
        }
      }
      const Buffer w = backend->Upload(weight), b = backend->Upload(bias);
      const DeviceRows in = ToDevice(*backend, x, kRows, cols);
      const DeviceRows out = ToDevice(*backend, std::vector<float>(kRows * cols, NAN), kRows, cols);
      backend->LayerNorm(in.matrix, w, b, kEps, out.matrix);
      const std::vector<float> together = ToHost(*backend, out.matrix);
      ExpectClose(together, expected, offset == 0.0f ? 2e-6 : 1e-4);
      for (int64_t row = 0; row < kRows; ++row) {  // each row alone, and in place
        const Matrix in_row{in.matrix.f32() + row * cols, 1, cols};
        backend->LayerNorm(in_row, w, b, kEps, in_row);
      }
      ExpectIdentical(ToHost(*backend, in.matrix), together);
    }
  }
}

TEST_P(BackendRowsTest, RmsNormHeadsNormsQueriesAndKeysEachAlone) {
  for (const int head_dim : {6, 16, 24, 64, 100}) {
    SCOPED_TRACE(head_dim);
    const AttentionShape shape{4, 2, head_dim, 1.0f};
    constexpr int64_t kRows = 3;
    const int64_t cols = 8 * head_dim;
    std::unique_ptr<Backend> backend = MakeBackend(GetParam());
    const std::vector<float> x = RandomValues(1, kRows * cols, 4.0f);
    const Buffer q = backend->Upload(RandomValues(2, head_dim));
    const Buffer k = backend->Upload(RandomValues(3, head_dim));
    const DeviceRows heads = ToDevice(*backend, x, kRows * 8, head_dim);
    const DeviceRows qkv = ToDevice(*backend, x, kRows, cols);
    backend->RmsNormHeads(shape, q, k, 1e-6f, qkv.matrix);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int head = 0; head < 6; ++head) {
        const Matrix one{heads.matrix.f32() + (row * 8 + head) * head_dim, 1, head_dim};
        backend->RmsNorm(one, head < 4 ? q : k, 1e-6f, one);
      }
    }
    ExpectIdentical(ToHost(*backend, qkv.matrix), ToHost(*backend, heads.matrix));
  }
}

TEST_P(BackendRowsTest, AddAdds) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  const std::vector<float> x = RandomValues(1, 5 * 37), y = RandomValues(2, 5 * 37);
  const DeviceRows in = ToDevice(*backend, x, 5, 37), out = ToDevice(*backend, y, 5, 37);
  backend->Add(in.matrix, out.matrix);
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) expected.push_back(x[i] + y[i]);
  ExpectIdentical(ToHost(*backend, out.matrix), expected);
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return x * 0.5 * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluTanh:
      return x / (1.0 +
                  std::exp(-2.0 * std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
  }
  return NAN;
}

TEST_P(BackendRowsTest, GatedActivationMultipliesByTheActivatedGate) {
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const int64_t n : {1, 15, 16, 50, 1536}) {
      SCOPED_TRACE(testing::Message() << "activation " << int(activation) << ", " << n);
      constexpr int64_t kRows = 3;
      std::unique_ptr<Backend> backend = MakeBackend(GetParam());
      // Gates from tiny through far saturation on both sides.
      std::vector<float> x = RandomValues(n, kRows * 2 * n, 8.0f);
      for (int64_t i = 0; i < n; i += 7) x[i] = i % 2 == 0 ? 120.0f : -120.0f;
      std::vector<double> expected;
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t c = 0; c < n; ++c) {
          expected.push_back(Activate(activation, x[row * 2 * n + c]) * x[row * 2 * n + n + c]);
        }
      }
      const DeviceRows in = ToDevice(*backend, x, kRows, 2 * n);
      const DeviceRows out = ToDevice(*backend, std::vector<float>(kRows * n, NAN), kRows, n);
      backend->GatedActivation(activation, in.matrix, out.matrix);
      const std::vector<float> together = ToHost(*backend, out.matrix);
      ExpectClose(together, expected, 3e-6);
      for (int64_t row = 0; row < kRows; ++row) {
        const Matrix in_row{in.matrix.f32() + row * 2 * n, 1, 2 * n};
        const DeviceRows alone = ToDevice(*backend, std::vector<float>(n, NAN), 1, n);
        backend->GatedActivation(activation, in_row, alone.matrix);
        ExpectIdentical(ToHost(*backend, alone.matrix),
                        {together.begin() + row * n, together.begin() + (row + 1) * n});
      }
    }
  }
}

TEST_P(BackendRowsTest, ActivateIsInPlace) {
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (const int64_t n : {1, 15, 16, 50, 1536}) {
      SCOPED_TRACE(testing::Message() << "activation " << int(activation) << ", " << n);
      std::unique_ptr<Backend> backend = MakeBackend(GetParam());
      const std::vector<float> x = RandomValues(n, 3 * n, 8.0f);
      std::vector<double> expected;
      for (const float value : x) expected.push_back(Activate(activation, value));
      const DeviceRows rows = ToDevice(*backend, x, 3, n);
      backend->Activate(activation, rows.matrix);
      ExpectClose(ToHost(*backend, rows.matrix), expected, 3e-6);
    }
  }
}

TEST_P(BackendRowsTest, GatherRowsCopiesInTheOrderAsked) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  const std::vector<float> x = RandomValues(3, 6 * 19);
  const std::vector<int32_t> rows = {5, 0, 2, 2};
  const DeviceRows in = ToDevice(*backend, x, 6, 19);
  const DeviceRows out = ToDevice(*backend, std::vector<float>(4 * 19, NAN), 4, 19);
  backend->GatherRows(in.matrix, rows, out.matrix);
  std::vector<float> expected;
  for (const int32_t row : rows) {
    expected.insert(expected.end(), x.begin() + row * 19, x.begin() + (row + 1) * 19);
  }
  ExpectIdentical(ToHost(*backend, out.matrix), expected);
}

TEST_P(BackendRowsTest, RopeTableHoldsCosinesThenSines) {
  for (const int rotary_dim : {2, 6, 16, 64, 128}) {
    SCOPED_TRACE(rotary_dim);
    std::unique_ptr<Backend> backend = MakeBackend(GetParam());
    RopeParams rope;
    rope.rotary_dim = rotary_dim;
    rope.attention_factor = 1.25f;
    for (int i = 0; i < rotary_dim / 2; ++i) {
      rope.inv_freq.push_back(std::pow(10000.0f, -2.0f * i / rotary_dim));
    }
    const std::vector<int32_t> positions = {0, 1, 2, 77, 8191, 131071};
    std::vector<double> expected;
    for (const int32_t position : positions) {
      for (const bool sine : {false, true}) {
        for (const float frequency : rope.inv_freq) {
          // The angle is an f32, as where the models were trained.
          const double angle = static_cast<float>(position) * frequency;
          expected.push_back(1.25 * (sine ? std::sin(angle) : std::cos(angle)));
        }
      }
    }
    const DeviceRows table =
        ToDevice(*backend, std::vector<float>(6 * rotary_dim, NAN), 6, rotary_dim);
    backend->ComputeRope(rope, positions, table.matrix);
    ExpectClose(ToHost(*backend, table.matrix), expected, 1e-6);
  }
}

TEST_P(BackendRowsTest, AllocatesZeroedAlignedMemory) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  for (const size_t bytes : {size_t{4}, size_t{100}, size_t{1} << 20}) {
    const Buffer buffer = backend->Allocate(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    const int64_t count = static_cast<int64_t>(bytes / sizeof(float));
    for (const float value : ToHost(*backend, {buffer.data(), 1, count})) ASSERT_EQ(value, 0.0f);
  }
}

HYDRANT_INSTANTIATE(BackendRowsTest, AllBackendNames());

}  // namespace
}  // namespace hydrant::kernels
