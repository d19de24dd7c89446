// Kernels of the CPU backend at the shapes of SmolLM2-135M, beside what the machine can do. Build
// in Release; HYDRANT_ISA chooses another instruction set. Counters: GB/s is weights or keys and
// values read, GOP/s twice the multiplications, and the shares are of the peaks measured at
// start: those of vector instructions, which AMX exceeds.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "tests/bench/attended.h"
#include "tests/bench/machine_peaks.h"

namespace hydrant::bench {
namespace {

using kernels::Backend;
using kernels::WeightDType;

struct Peaks {
  double read, int8, bf16;
};
Peaks g_peaks;

// All linear layers of the model once, as in one forward pass.
void BM_Linear(benchmark::State& state, WeightDType dtype) {
  const int rows = static_cast<int>(state.range(0));
  constexpr int64_t kShapes[][2] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
  std::unique_ptr<Backend> backend = MakeBackend();
  std::vector<std::unique_ptr<kernels::PackedMatrix>> weights;
  int64_t elements = 0;
  const auto add = [&](int64_t outputs, int64_t inputs) {
    const auto read = [inputs](int64_t row, float* out) {
      for (int64_t i = 0; i < inputs; ++i) out[i] = Noise(row * inputs + i);
    };
    weights.push_back(*backend->Pack({outputs, inputs, read}, dtype));
    elements += outputs * inputs;
  };
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const auto& shape : kShapes) add(shape[0], shape[1]);
  }
  if (rows <= 64) add(49152, 576);  // a prefill takes logits of few rows
  backend->Reserve(rows, 1536, 16, kShape);
  const kernels::Buffer x = Fill(*backend, rows * 1536);
  const kernels::Buffer y = backend->Allocate(rows * 49152 * sizeof(float));
  double bytes = 0;
  for (const auto& w : weights) bytes += static_cast<double>(w->bytes());
  for (auto _ : state) {
    for (const auto& w : weights) {
      backend->Linear({x.data(), rows, w->cols()}, *w, nullptr, false, {y.data(), rows, w->rows()});
    }
  }
  const double passes = static_cast<double>(state.iterations());
  const bool integer = dtype == WeightDType::kInt8 || dtype == WeightDType::kInt4;
  const double peak = integer ? g_peaks.int8 : g_peaks.bf16;
  using Counter = benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * passes / 1e9, Counter::kIsRate);
  state.counters["of_read"] = Counter(bytes * passes / 1e9 / g_peaks.read, Counter::kIsRate);
  const double operations = 2.0 * rows * static_cast<double>(elements) * passes / 1e9;
  state.counters["GOP/s"] = Counter(operations, Counter::kIsRate);
  if (peak > 0) state.counters["of_peak"] = Counter(operations / peak, Counter::kIsRate);
}
#define LINEAR(name, dtype)                 \
  BENCHMARK_CAPTURE(BM_Linear, name, dtype) \
      ->Arg(1)                              \
      ->Arg(4)                              \
      ->Arg(8)                              \
      ->Arg(16)                             \
      ->Arg(64)                             \
      ->Arg(512)                            \
      ->Unit(benchmark::kMillisecond)       \
      ->UseRealTime()
LINEAR(int4, WeightDType::kInt4);
LINEAR(int8, WeightDType::kInt8);
LINEAR(bf16, WeightDType::kBF16);
LINEAR(f32, WeightDType::kF32);

void BM_Pack(benchmark::State& state, WeightDType dtype) {
  std::unique_ptr<Backend> backend = MakeBackend();
  const std::vector<float> row(576, 0.5f);
  const auto read = [&row](int64_t, float* out) { std::copy(row.begin(), row.end(), out); };
  for (auto _ : state) benchmark::DoNotOptimize(backend->Pack({49152, 576, read}, dtype));
  state.counters["Mparam/s"] = benchmark::Counter(
      49152 * 576 / 1e6 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK_CAPTURE(BM_Pack, int8, WeightDType::kInt8)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_Pack, int4, WeightDType::kInt4)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(BM_Pack, bf16, WeightDType::kBF16)->Unit(benchmark::kMillisecond)->UseRealTime();

// One decode step of 16 sequences through all layers; keys and values far exceed the caches.
void BM_DecodeAttention(benchmark::State& state, kernels::KvDType dtype) {
  std::unique_ptr<Backend> backend = MakeBackend();
  constexpr int kSequences = 16;
  const auto slots = static_cast<int>(state.range(0));
  Attended a(*backend, kLayers, kSequences, 1, slots, state.range(1) != 0, dtype);
  for (auto _ : state) {
    for (int layer = 0; layer < kLayers; ++layer) {
      backend->Attention(a.batch, kShape, layer, a.qkv, *a.store, a.out);
    }
  }
  const kernels::KvBits bits = kernels::KvBitsOf(dtype);
  const double bytes = (bits.key + bits.value) / 8.0 * kHeadDim * kKvHeads * slots * kSequences *
                       kLayers * static_cast<double>(state.iterations()) / 1e9;
  state.counters["GB/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsRate);
  state.counters["of_read"] = benchmark::Counter(bytes / g_peaks.read, benchmark::Counter::kIsRate);
}
#define DECODE(name, dtype)                          \
  BENCHMARK_CAPTURE(BM_DecodeAttention, name, dtype) \
      ->ArgNames({"slots", "scores"})                \
      ->ArgsProduct({{256, 2048}, {0, 1}})           \
      ->Unit(benchmark::kMillisecond)                \
      ->UseRealTime()
DECODE(bf16, kernels::KvDType::kBF16);
DECODE(f32, kernels::KvDType::kF32);
DECODE(int8, kernels::KvDType::kInt8);
DECODE(int4, kernels::KvDType::kInt4);
DECODE(kivi2, kernels::KvDType::kKivi2);

// A whole prompt through one layer.
void BM_PrefillAttention(benchmark::State& state, kernels::KvDType dtype) {
  std::unique_ptr<Backend> backend = MakeBackend();
  const auto rows = static_cast<int>(state.range(0));
  Attended a(*backend, 1, 1, rows, rows, state.range(1) != 0, dtype);
  for (auto _ : state) backend->Attention(a.batch, kShape, 0, a.qkv, *a.store, a.out);
  const double operations = 4.0 * kHeadDim * kHeads * (rows * (rows + 1.0) / 2) *
                            static_cast<double>(state.iterations()) / 1e9;
  state.counters["GOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  if (g_peaks.bf16 > 0) {
    state.counters["of_peak"] =
        benchmark::Counter(operations / g_peaks.bf16, benchmark::Counter::kIsRate);
  }
}
#define PREFILL(name, dtype)                          \
  BENCHMARK_CAPTURE(BM_PrefillAttention, name, dtype) \
      ->ArgNames({"rows", "scores"})                  \
      ->ArgsProduct({{512, 2048, 3840}, {0, 1}})      \
      ->Unit(benchmark::kMillisecond)                 \
      ->UseRealTime()
PREFILL(bf16, kernels::KvDType::kBF16);
PREFILL(f32, kernels::KvDType::kF32);
PREFILL(int8, kernels::KvDType::kInt8);
PREFILL(int4, kernels::KvDType::kInt4);
PREFILL(kivi2, kernels::KvDType::kKivi2);

}  // namespace
}  // namespace hydrant::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const auto backend = hydrant::bench::MakeBackend();
  const int threads = backend->num_threads();
  auto& peaks = hydrant::bench::g_peaks;
  peaks = {hydrant::bench::ReadBandwidth(threads), hydrant::bench::Int8Peak(threads),
           hydrant::bench::BF16Peak(threads)};
  std::printf("%s, %d threads: read %.1f GB/s, int8 %.0f GOP/s, bf16 %.0f GOP/s at most\n",
              std::string(backend->name()).c_str(), threads, peaks.read, peaks.int8, peaks.bf16);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
