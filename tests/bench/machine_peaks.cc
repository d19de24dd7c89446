#include "tests/bench/machine_peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hydrant::bench {
namespace {

constexpr int kRepeats = 5;

// The shortest of several times that work(thread) takes on all threads together.
template <typename Work>
double BestSeconds(int threads, const Work& work) {
  double best = 1e30;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t) {
      team.emplace_back([&, t] {
        ready.fetch_add(1);
        while (!go.load()) std::this_thread::yield();
        work(t);
      });
    }
    while (ready.load() < threads) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    go.store(true);
    for (std::thread& member : team) member.join();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

#if defined(__x86_64__)
constexpr int64_t kTurns = 4'000'000;

__attribute__((target("avx512f,avx512vnni"))) void SpinInt8() {
  __m512i a[12];
  for (__m512i& v : a) v = _mm512_setzero_si512();
  const __m512i x = _mm512_set1_epi8(1);
  for (int64_t i = 0; i < kTurns; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vpdpbusd %1, %1, %0" : "+v"(a[j]) : "v"(x));
  }
}

__attribute__((target("avx512f,avx512bf16"))) void SpinBF16() {
  __m512 a[12];
  for (__m512& v : a) v = _mm512_setzero_ps();
  const __m512i x = _mm512_set1_epi32(0x3f803f80);
  for (int64_t i = 0; i < kTurns; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(a[j]) : "v"(x));
  }
}
#endif

}  // namespace

double ReadBandwidth(int threads) {
  const size_t words = size_t{64} << 20;  // of 8 bytes each
  const std::unique_ptr<uint64_t, decltype(&std::free)> memory(
      static_cast<uint64_t*>(std::aligned_alloc(size_t{2} << 20, words * 8)), &std::free);
  uint64_t* const buffer = memory.get();
  madvise(buffer, words * 8, MADV_HUGEPAGE);  // as the weights lie
  std::fill(buffer, buffer + words, 1);
  std::atomic<uint64_t> total{0};
  const double seconds = BestSeconds(threads, [&](int t) {
    const size_t begin = words / threads * t;
    uint64_t sums[8] = {};
    for (size_t i = begin; i < begin + words / threads; i += 8) {
      for (int j = 0; j < 8; ++j) sums[j] += buffer[i + j];
    }
    for (const uint64_t sum : sums) total.fetch_add(sum);
  });
  return words * 8.0 / seconds / 1e9;
}

double Int8Peak(int threads) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512vnni")) return 0;
  return kTurns * 12.0 * 128 * threads / BestSeconds(threads, [](int) { SpinInt8(); }) / 1e9;
#else
  return 0;
#endif
}

double BF16Peak(int threads) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512bf16")) return 0;
  return kTurns * 12.0 * 64 * threads / BestSeconds(threads, [](int) { SpinBF16(); }) / 1e9;
#else
  return 0;
#endif
}

}  // namespace hydrant::bench
