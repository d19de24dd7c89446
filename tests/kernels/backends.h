// Which backends this machine can test, and small tools for moving values in and out of them.

#ifndef HYDRANT_TESTS_KERNELS_BACKENDS_H_
#define HYDRANT_TESTS_KERNELS_BACKENDS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#ifdef HYDRANT_TEST_EMULATED_CUDA
#include "tests/cuda_emulator/emulated_backend.h"
#endif

namespace hydrant::kernels {

inline constexpr char kEmulatedCuda[] = "cuda:emulated";

// A new backend. `threads` counts where the backend has a choice. Null where the machine cannot.
inline std::unique_ptr<Backend> TryMakeBackend(const std::string& name, int threads) {
  if (name == "reference") return CreateReferenceBackend();
  if (name == kEmulatedCuda) {
#ifdef HYDRANT_TEST_EMULATED_CUDA
    return CreateEmulatedCudaBackend();
#else
    return nullptr;
#endif
  }
  if (name == "cuda") {
    auto backend = CreateCudaBackend();
    return backend.ok() ? *std::move(backend) : nullptr;
  }
  auto backend = CreateCpuBackend({.threads = threads, .isa = name.substr(name.find(':') + 1)});
  return backend.ok() ? *std::move(backend) : nullptr;
}

inline std::unique_ptr<Backend> MakeBackend(const std::string& name, int threads = 2) {
  std::unique_ptr<Backend> backend = TryMakeBackend(name, threads);
  EXPECT_NE(backend, nullptr) << name;
  return backend;
}

// The backends that are judged by the reference and run here; says once on standard output which do
// not.
inline const std::vector<std::string>& OptimisedBackendNames() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const char* name : {"cpu:portable", "cpu:avx2", "cpu:avx512", "cpu:avx512bf16", "cpu:amx",
                             "cuda", kEmulatedCuda}) {
      if (TryMakeBackend(name, 1) != nullptr) {
        names.push_back(name);
      } else {
        std::printf("backend %s cannot run on this machine: left out\n", name);
      }
    }
    return names;
  }();
  return kNames;
}

inline std::vector<std::string> AllBackendNames() {
  std::vector<std::string> names = OptimisedBackendNames();
  names.insert(names.begin(), "reference");
  return names;
}

// What of a long list of cases a backend is taken through: the emulator, which is slow, through
// every fourth.
template <typename Case>
std::vector<Case> CasesFor(const std::string& backend, const std::vector<Case>& all) {
  if (backend != kEmulatedCuda) return all;
  std::vector<Case> some;
  for (size_t i = 0; i < all.size(); i += 4) some.push_back(all[i]);
  return some;
}

// Attention with a bf16 cache rounds the softmax's weights, which may be scaled in any way before.
// By how much outputs may differ, on average, where a backend scales them otherwise than the
// reference does (by 1 / exp(largest)): CUDA by whole powers of two, AMX by another score than the
// largest.
inline double WeightRounding(const std::string& backend) {
  return backend.starts_with("cuda") || backend == "cpu:amx" ? 0x1p-9 : 0.0;
}

// A suite that runs on every backend; MakeBackend(GetParam()) is the one under test.
class BackendTest : public ::testing::TestWithParam<std::string> {};

#define HYDRANT_INSTANTIATE(suite, names)                                                      \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, ::testing::ValuesIn(names), [](const auto& test) { \
    std::string name = test.param;                                                             \
    std::replace(name.begin(), name.end(), ':', '_');                                          \
    return name;                                                                               \
  })

// A stream of numbers that depends on its seed alone (splitmix64).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint64_t Bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [low, high].
  int Int(int low, int high) { return low + static_cast<int>(Bits() % (high - low + 1)); }
  // In [-1, 1).
  float Float() {
    return static_cast<float>(static_cast<int64_t>(Bits() >> 40) - (1 << 23)) / (1 << 23);
  }
  bool Bool() { return (Bits() & 1) != 0; }

 private:
  uint64_t state_;
};

inline std::vector<float> RandomValues(uint64_t seed, int64_t count, float scale = 1.0f) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.Float() * scale;
  return values;
}

// An activation matrix on a backend, with its memory.
struct DeviceRows {
  Buffer buffer;
  Matrix matrix;
};

inline DeviceRows ToDevice(Backend& backend, std::span<const float> values, int64_t rows,
                           int64_t cols) {
  EXPECT_EQ(static_cast<int64_t>(values.size()), rows * cols);
  DeviceRows device{backend.Upload(values), {}};
  device.matrix = {device.buffer.data(), rows, cols};
  return device;
}

inline std::vector<float> ToHost(Backend& backend, const Matrix& matrix) {
  const float* values = backend.HostRows(matrix);
  return std::vector<float>(values, values + matrix.rows * matrix.cols);
}

// A weight matrix that lies in host memory.
inline MatrixSource SourceOf(const std::vector<float>& values, int64_t rows, int64_t cols) {
  return {rows, cols, [&values, cols](int64_t row, float* out) {
            std::copy(values.begin() + row * cols, values.begin() + (row + 1) * cols, out);
          }};
}

// |actual[i] - expected[i]| <= tolerance * (1 + |expected[i]|), reporting the worst element.
template <typename T>
void ExpectClose(const std::vector<float>& actual, const std::vector<T>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0.0;
  size_t where = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double error =
        std::fabs(double(actual[i]) - double(expected[i])) / (1.0 + std::fabs(double(expected[i])));
    if (error > worst || std::isnan(error)) {
      worst = error;
      where = i;
      if (std::isnan(error)) break;
    }
  }
  if (actual.empty()) return;
  EXPECT_LE(worst, tolerance) << "element " << where << " is " << actual[where] << ", expected "
                              << expected[where];
}

// Equal bit for bit (and no NaN), reporting the first that is not.
inline void ExpectIdentical(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i], expected[i]) << "element " << i;
  }
}

}  // namespace hydrant::kernels

#endif  // HYDRANT_TESTS_KERNELS_BACKENDS_H_
