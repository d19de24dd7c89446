// Linear layers of every backend: against plain sums in double, against the reference, and the
// contract (batch and thread invariance, nothing else written).

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "kernels/quantization.h"
#include "tests/kernels/backends.h"

namespace hydrant::kernels {
namespace {

constexpr WeightDType kDTypes[] = {WeightDType::kF32, WeightDType::kBF16, WeightDType::kInt8,
                                   WeightDType::kInt4};

struct LinearCase {
  int64_t rows, cols, outputs;
  WeightDType dtype;
  bool bias = false;
  bool accumulate = false;
};

// The operands of a case; row i of x depends on i alone.
struct Operands {
  explicit Operands(const LinearCase& c)
      : x(RandomValues(11, c.rows * c.cols)),
        w(RandomValues(12, c.outputs * c.cols)),
        bias(RandomValues(13, c.outputs)),
        y(RandomValues(14, c.rows * c.outputs)) {}
  std::vector<float> x, w, bias, y;
};

std::vector<float> RunLinear(Backend& backend, const LinearCase& c, const Operands& operands) {
  auto packed = backend.Pack(SourceOf(operands.w, c.outputs, c.cols), c.dtype);
  EXPECT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*packed)->rows(), c.outputs);
  EXPECT_EQ((*packed)->cols(), c.cols);
  EXPECT_GE((*packed)->bytes(), static_cast<size_t>(c.outputs * c.cols / 2));
  backend.Reserve(c.rows, c.cols, 16, {1, 1, 16, 1.0f});
  const DeviceRows x = ToDevice(backend, operands.x, c.rows, c.cols);
  const DeviceRows y = ToDevice(backend, operands.y, c.rows, c.outputs);
  const Buffer bias = backend.Upload(operands.bias);
  backend.Linear(x.matrix, **packed, c.bias ? &bias : nullptr, c.accumulate, y.matrix);
  EXPECT_EQ(ToHost(backend, x.matrix), operands.x) << "x has been changed";
  return ToHost(backend, y.matrix);
}

// The same in double, from the definition of the dtype. `magnitude` is the sum of the absolute
// products of each output, by which rounding errors scale.
std::vector<double> NaiveLinear(const LinearCase& c, const Operands& operands,
                                std::vector<double>* magnitude) {
  std::vector<double> out, sizes;
  const auto element = [&](float value) {
    return c.dtype == WeightDType::kBF16 ? double(RoundToBF16(value)) : double(value);
  };
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t n = 0; n < c.outputs; ++n) {
      double sum = 0.0, size = 0.0;
      for (int64_t k = 0; k < c.cols; ++k) {
        const double product =
            element(operands.x[row * c.cols + k]) * element(operands.w[n * c.cols + k]);
        sum += product;
        size += std::fabs(product);
      }
      if (c.bias) sum += operands.bias[n];
      if (c.accumulate) sum += operands.y[row * c.outputs + n];
      out.push_back(sum);
      sizes.push_back(size);
    }
  }
  *magnitude = sizes;
  return out;
}

class BackendLinearTest : public BackendTest {};
class LinearMatchTest : public BackendTest {};

TEST_P(BackendLinearTest, IsTheProduct) {
  for (const WeightDType dtype : kDTypes) {
    for (const int64_t cols : {1, 2, 15, 48, 64, 100, 192, 576}) {
      const LinearCase c{3, cols, 21, dtype, true, true};
      SCOPED_TRACE(testing::Message() << WeightDTypeName(dtype) << ", " << cols << " columns");
      const Operands operands(c);
      std::vector<double> magnitude;
      const std::vector<double> expected = NaiveLinear(c, operands, &magnitude);
      const std::vector<float> y = RunLinear(*MakeBackend(GetParam()), c, operands);
      ASSERT_EQ(y.size(), expected.size());
      for (size_t i = 0; i < y.size(); ++i) {
        // int8: each side is off by at most half a step of absmax / 127, and 64 values of one
        // rotation block may add up to 8 times the largest; errors are random, so far below.
        // int4: weights are off by at most half a step of 2 / 15.
        const double tolerance = dtype == WeightDType::kInt8 ? 0.03 * std::sqrt(double(cols))
                                 : dtype == WeightDType::kInt4
                                     ? 0.15 * std::sqrt(double(cols))
                                     : 1e-6 * (magnitude[i] + std::fabs(expected[i]) + 1.0);
        ASSERT_NEAR(y[i], expected[i], tolerance) << "output " << i;
      }
    }
  }
}

TEST_P(LinearMatchTest, MatchesTheReference) {
  const int64_t kRows[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 70};
  const int64_t kCols[] = {1, 3, 16, 31, 32, 63, 64, 65, 96, 128, 320, 576, 1000};
  const int64_t kOutputs[] = {1, 2, 15, 16, 17, 48, 64, 97, 130};
  Random random(5);
  for (const WeightDType dtype : kDTypes) {
    for (const int64_t rows : kRows) {
      for (const int64_t cols : kCols) {
        const int64_t outputs = kOutputs[random.Int(0, std::size(kOutputs) - 1)];
        const LinearCase c{rows, cols, outputs, dtype, random.Bool(), random.Bool()};
        SCOPED_TRACE(testing::Message() << WeightDTypeName(dtype) << " [" << rows << ", " << cols
                                        << "] x [" << outputs << ", " << cols << "]");
        const Operands operands(c);
        std::vector<double> magnitude;
        NaiveLinear(c, operands, &magnitude);
        const std::vector<float> expected = RunLinear(*CreateReferenceBackend(), c, operands);
        const std::vector<float> y = RunLinear(*MakeBackend(GetParam()), c, operands);
        for (size_t i = 0; i < y.size(); ++i) {
          if (dtype == WeightDType::kInt4) {
            ASSERT_EQ(y[i], expected[i]) << i;
            continue;
          }
          // The integer path is exact up to the last scaling.
          const double scale = dtype == WeightDType::kInt8 ? 0.0 : magnitude[i];
          ASSERT_NEAR(y[i], expected[i], 1e-6 * (scale + std::fabs(expected[i]) + 1.0)) << i;
        }
      }
    }
  }
}

TEST_P(BackendLinearTest, ARowDoesNotDependOnOtherRows) {
  for (const WeightDType dtype : kDTypes) {
    for (const int64_t cols : {7, 64, 200, 576}) {
      for (const int64_t outputs : {1, 33, 64}) {
        const LinearCase all{40, cols, outputs, dtype, true, true};
        SCOPED_TRACE(testing::Message()
                     << WeightDTypeName(dtype) << " [" << outputs << ", " << cols << "]");
        const Operands operands(all);
        const std::vector<float> together = RunLinear(*MakeBackend(GetParam()), all, operands);
        for (const int64_t rows : {1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 31, 32, 33, 39}) {
          LinearCase some = all;
          some.rows = rows;
          Operands last = operands;  // the last `rows` rows on their own
          last.x.erase(last.x.begin(), last.x.end() - rows * cols);
          last.y.erase(last.y.begin(), last.y.end() - rows * outputs);
          const std::vector<float> alone = RunLinear(*MakeBackend(GetParam()), some, last);
          ExpectIdentical(alone, {together.end() - rows * outputs, together.end()});
        }
      }
    }
  }
}

TEST_P(BackendLinearTest, DoesNotDependOnTheNumberOfThreads) {
  if (MakeBackend(GetParam(), 2)->num_threads() == 1) GTEST_SKIP() << "it has one";
  for (const WeightDType dtype : kDTypes) {
    for (const int64_t rows : {1, 3, 20, 65}) {
      const LinearCase c{rows, 192, 333, dtype, true, false};
      SCOPED_TRACE(testing::Message() << WeightDTypeName(dtype) << ", " << rows << " rows");
      const Operands operands(c);
      const std::vector<float> one = RunLinear(*MakeBackend(GetParam(), 1), c, operands);
      for (const int threads : {2, 3, 8}) {
        ExpectIdentical(RunLinear(*MakeBackend(GetParam(), threads), c, operands), one);
      }
    }
  }
}

TEST_P(BackendLinearTest, WritesItsRowsOnly) {
  for (const WeightDType dtype : kDTypes) {
    for (const int64_t rows : {1, 3, 16, 21}) {
      constexpr int64_t kCols = 70, kOutputs = 37, kGuard = 2;
      std::unique_ptr<Backend> backend = MakeBackend(GetParam());
      const std::vector<float> w = RandomValues(1, kOutputs * kCols);
      auto packed = backend->Pack(SourceOf(w, kOutputs, kCols), dtype);
      ASSERT_TRUE(packed.ok());
      backend->Reserve(rows, kCols, 16, {1, 1, 16, 1.0f});
      const DeviceRows x = ToDevice(*backend, RandomValues(2, rows * kCols), rows, kCols);
      const std::vector<float> before((rows + 2 * kGuard) * kOutputs, 77.0f);
      const DeviceRows y = ToDevice(*backend, before, rows + 2 * kGuard, kOutputs);
      const Matrix middle{y.matrix.f32() + kGuard * kOutputs, rows, kOutputs};
      backend->Linear(x.matrix, **packed, nullptr, false, middle);
      const std::vector<float> after = ToHost(*backend, y.matrix);
      for (int64_t i = 0; i < kGuard * kOutputs; ++i) {
        ASSERT_EQ(after[i], 77.0f);
        ASSERT_EQ(after[after.size() - 1 - i], 77.0f);
      }
    }
  }
}

TEST_P(BackendLinearTest, GatedGivesWhatLinearAndTheActivationGive) {
  for (const WeightDType dtype : kDTypes) {
    // Whole tiles and not, few rows and more than a claim has, one group of tiles and an odd end.
    for (const auto& [rows, width] : {std::pair{1, 48}, {3, 50}, {33, 48}, {64, 240}, {300, 144}}) {
      for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
        SCOPED_TRACE(testing::Message() << WeightDTypeName(dtype) << " " << rows << " x " << width);
        const LinearCase c = {rows, 96, 2 * width, dtype, true};
        const Operands operands(c);
        std::unique_ptr<Backend> backend = MakeBackend(GetParam());
        const DeviceRows both =
            ToDevice(*backend, RunLinear(*backend, c, operands), rows, 2 * width);
        const DeviceRows expected =
            ToDevice(*backend, std::vector<float>(rows * width), rows, width);
        backend->GatedActivation(activation, both.matrix, expected.matrix);

        auto packed = *backend->Pack(SourceOf(operands.w, c.outputs, c.cols), dtype);
        const DeviceRows x = ToDevice(*backend, operands.x, rows, c.cols);
        // A row more, which is to stay.
        const DeviceRows y =
            ToDevice(*backend, std::vector<float>((rows + 1) * width, 7), rows + 1, width);
        const Buffer bias = backend->Upload(operands.bias);
        backend->GatedLinear(activation, x.matrix, *packed, &bias, both.matrix,
                             {y.matrix.f32(), rows, width});
        std::vector<float> wanted = ToHost(*backend, expected.matrix);
        wanted.resize((rows + 1) * width, 7);
        ExpectIdentical(ToHost(*backend, y.matrix), wanted);
      }
    }
  }
}

// Each row rotates into one magnitude throughout, so that every product is 127 * 127: sums pass
// 2^24, and a product pair kept in 16 bits would saturate.
TEST_P(BackendLinearTest, Int8SumsAreExactAtTheExtremes) {
  constexpr int64_t kCols = 8192;
  const LinearCase c{2, kCols, 4, WeightDType::kInt8};
  Operands operands(c);
  std::fill(operands.x.begin(), operands.x.end(), 0.0f);
  std::fill(operands.w.begin(), operands.w.end(), 0.0f);
  for (int64_t k = 0; k < kCols; k += 64) {
    operands.x[k] = 1.0f;
    operands.x[kCols + k] = -1.0f;
    for (int n = 0; n < 4; ++n) operands.w[n * kCols + k] = n % 2 == 0 ? 2.0f : -2.0f;
  }
  const std::vector<float> y = RunLinear(*MakeBackend(GetParam()), c, operands);
  const float sum = 2.0f * kCols / 64;
  ExpectClose(y, std::vector<float>{sum, -sum, sum, -sum, -sum, sum, -sum, sum}, 1e-6);
}

TEST_P(BackendLinearTest, Int8RowsOfZerosGiveZero) {
  const LinearCase c{3, 128, 5, WeightDType::kInt8, true};
  Operands operands(c);
  std::fill(operands.x.begin(), operands.x.begin() + c.cols, 0.0f);  // a row of zeros
  std::fill(operands.w.begin(), operands.w.begin() + c.cols, 0.0f);
  const std::vector<float> y = RunLinear(*MakeBackend(GetParam()), c, operands);
  for (int n = 0; n < 5; ++n) EXPECT_EQ(y[n], operands.bias[n]);
  for (int row = 0; row < 3; ++row) EXPECT_EQ(y[row * 5], operands.bias[0]);
}

// Weights that come in groups of their own are those very numbers: the product is exact up to the
// activations, which here have no rounding either.
TEST_P(BackendLinearTest, Int4KeepsTheGroupsOfTheSource) {
  constexpr int64_t kRows = 3, kCols = 96, kOutputs = 50, kGroups = kCols / kInt4Group;
  Random random(6);
  std::vector<uint8_t> levels(kOutputs * kCols);
  for (uint8_t& level : levels) level = random.Int(0, 15);
  std::vector<Int4Range> ranges(kOutputs * kGroups);
  for (Int4Range& range : ranges) {
    // Subnormal scales, too.
    range = {FloatToF16(std::ldexp(random.Float(), random.Int(-20, 2))),
             FloatToF16(8 * random.Float())};
  }
  MatrixSource source{kOutputs, kCols, [](int64_t, float*) { FAIL() << "row read"; }};
  source.read_groups = [&](int64_t row, uint8_t* out, Int4Range* out_ranges) {
    std::copy_n(levels.begin() + row * kCols, kCols, out);
    std::copy_n(ranges.begin() + row * kGroups, kGroups, out_ranges);
  };
  std::vector<float> x(kRows * kCols);
  for (float& value : x) value = random.Int(-127, 127);
  for (int64_t i = 0; i < kRows * kCols; i += kInt4Group) x[i] = 127.0f;  // the scale is 1

  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  auto packed = backend->Pack(source, WeightDType::kInt4);
  ASSERT_TRUE(packed.ok()) << packed.status();
  backend->Reserve(kRows, kCols, 16, {1, 1, 16, 1.0f});
  const DeviceRows in = ToDevice(*backend, x, kRows, kCols);
  const DeviceRows out = ToDevice(*backend, std::vector<float>(kRows * kOutputs), kRows, kOutputs);
  backend->Linear(in.matrix, **packed, nullptr, false, out.matrix);
  const std::vector<float> y = ToHost(*backend, out.matrix);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t n = 0; n < kOutputs; ++n) {
      double sum = 0.0, magnitude = 0.0;
      for (int64_t k = 0; k < kCols; ++k) {
        const Int4Range range = ranges[n * kGroups + k / kInt4Group];
        const double w = F16ToFloat(range.zero) + levels[n * kCols + k] * F16ToFloat(range.scale);
        sum += w * x[row * kCols + k];
        magnitude += std::fabs(w * x[row * kCols + k]);
      }
      ASSERT_NEAR(y[row * kOutputs + n], sum, 1e-6 * magnitude) << row << ", " << n;
    }
  }
}

// The largest sums of a group, of either sign.
TEST_P(BackendLinearTest, Int4SumsAreExactAtTheExtremes) {
  constexpr int64_t kCols = 64;
  MatrixSource source{2, kCols, nullptr};
  source.read_groups = [](int64_t row, uint8_t* levels, Int4Range* ranges) {
    std::fill_n(levels, kCols, row == 0 ? 15 : 0);
    std::fill_n(ranges, kCols / kInt4Group, Int4Range{FloatToF16(1.0f), FloatToF16(-8.0f)});
  };
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  auto packed = backend->Pack(source, WeightDType::kInt4);
  ASSERT_TRUE(packed.ok()) << packed.status();
  backend->Reserve(2, kCols, 16, {1, 1, 16, 1.0f});
  std::vector<float> x(2 * kCols, 127.0f);
  std::fill_n(x.begin() + kCols, kCols, -127.0f);
  const DeviceRows in = ToDevice(*backend, x, 2, kCols);
  const DeviceRows out = ToDevice(*backend, std::vector<float>(4), 2, 2);
  backend->Linear(in.matrix, **packed, nullptr, false, out.matrix);
  const float sum = 127.0f * kCols;
  ExpectIdentical(ToHost(*backend, out.matrix), {7 * sum, -8 * sum, -7 * sum, 8 * sum});
}

TEST_P(BackendLinearTest, Int4RefusesWeightsThatF16CannotSpan) {
  for (const float value : {-70'000.0f, 1e30f, std::numeric_limits<float>::quiet_NaN(),
                            -std::numeric_limits<float>::infinity()}) {
    std::vector<float> w(3 * 40, 1.0f);
    w[70] = value;
    const auto packed = MakeBackend(GetParam())->Pack(SourceOf(w, 3, 40), WeightDType::kInt4);
    EXPECT_EQ(packed.status().code(), absl::StatusCode::kInvalidArgument) << value;
  }
}

TEST_P(BackendLinearTest, RefusesShapesItCannotHold) {
  std::unique_ptr<Backend> backend = MakeBackend(GetParam());
  const auto zeros = [](int64_t rows, int64_t cols) {
    return MatrixSource{rows, cols, [cols](int64_t, float* out) { std::fill_n(out, cols, 0.0f); }};
  };
  EXPECT_EQ(backend->Pack(zeros(0, 4), WeightDType::kF32).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Pack(zeros(4, 0), WeightDType::kF32).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Pack(zeros(1, kMaxInt8Cols + 1), WeightDType::kInt8).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(backend->Pack(zeros(1, kMaxInt8Cols), WeightDType::kInt8).ok());
}

HYDRANT_INSTANTIATE(BackendLinearTest, AllBackendNames());
HYDRANT_INSTANTIATE(LinearMatchTest, OptimisedBackendNames());

}  // namespace
}  // namespace hydrant::kernels
