// What H2O's bookkeeping costs beside attention: keeping scores and choosing victims, as a share of
// the attention of a full cache of the same length. Build in Release.
//
// Each figure is the median of alternating pairs of one process. One thread, in processor time, so
// that other work on the machine does not count; the kernels share nothing that would make more
// threads dearer.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/attended.h"
#include "tests/bench/processor_time.h"

namespace hydrant::bench {
namespace {

constexpr int kPairs = 15;

double Time(const std::function<void()>& work) {
  const double start = ProcessorSeconds(CLOCK_THREAD_CPUTIME_ID);
  work();
  return ProcessorSeconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Print(const char* phase, kernels::KvDType dtype, int sequences, int slots, double full_seconds,
           double scores, double choice) {
  std::printf("| %s | %s | %d | %d | %.2f | %.1f %% | %.1f %% | %.1f %% |\n", phase,
              std::string(kernels::KvDTypeName(dtype)).c_str(), sequences, slots,
              full_seconds * 1e3, scores * 100, choice * 100, (scores + choice) * 100);
  std::fflush(stdout);
}

std::vector<kernels::EvictionItem> ItemsOf(const Attended& a, const kernels::EvictionPolicy& policy,
                                           int slots, std::vector<int32_t>& holes) {
  holes.resize(a.batch.sequences.size() * kLayers * kKvHeads);
  std::vector<kernels::EvictionItem> items;
  for (size_t s = 0; s < a.batch.sequences.size(); ++s) {
    items.push_back({.policy = policy,
                     .num_slots = slots,
                     .newest_position = slots - 1,
                     .blocks = a.batch.sequences[s].blocks,
                     .holes = holes.data() + s * kLayers * kKvHeads});
  }
  return items;
}

// A decode step over `slots` held slots: attention of all layers, then one victim each.
void Decode(kernels::KvDType dtype, int sequences, int slots) {
  const auto backend = MakeBackend(1);
  Attended a(*backend, kLayers, sequences, 1, slots, false, dtype);
  const auto attend = [&](bool keep_scores) {
    for (kernels::BatchSequence& s : a.batch.sequences) s.keep_scores = keep_scores;
    for (int layer = 0; layer < kLayers; ++layer) {
      backend->Attention(a.batch, kShape, layer, a.qkv, *a.store, a.out);
    }
  };
  const int recent = slots / 2;
  std::vector<int32_t> holes;
  const auto items =
      ItemsOf(a, {.sink = 4, .heavy = slots - 1 - recent - 4, .recent = recent}, slots, holes);
  std::vector<double> full, scores, choice;
  const int repeats = std::max(1, 16384 / (sequences * slots));
  for (int pair = 0; pair < kPairs; ++pair) {
    const auto repeat = [&](const std::function<void()>& work) {
      return Time([&] {
               for (int i = 0; i < repeats; ++i) work();
             }) /
             repeats;
    };
    const double without = repeat([&] { attend(false); });
    const double with = repeat([&] { attend(true); });
    const double evict = repeat([&] { backend->Evict(items, *a.store); });
    full.push_back(without);
    scores.push_back(with / without - 1);
    choice.push_back(evict / without);
  }
  Print("decode", dtype, sequences, slots, Median(full), Median(scores), Median(choice));
}

// A whole prompt, then compaction to a fifth of it.
void Prefill(kernels::KvDType dtype, int slots) {
  const auto backend = MakeBackend(1);
  Attended a(*backend, kLayers, 1, slots, slots, false, dtype);
  const auto attend = [&](bool keep_scores) {
    a.batch.sequences[0].keep_scores = keep_scores;
    for (int layer = 0; layer < kLayers; ++layer) {
      backend->Attention(a.batch, kShape, layer, a.qkv, *a.store, a.out);
    }
  };
  const int budget = slots / 5;
  std::vector<int32_t> holes;
  const auto items =
      ItemsOf(a, {.sink = 4, .heavy = budget - budget / 2 - 4, .recent = budget / 2}, slots, holes);
  std::vector<double> full, scores, choice;
  for (int pair = 0; pair < 5; ++pair) {
    a.FillStore(*backend, 1, slots, kLayers);
    const double without = Time([&] { attend(false); });
    const double with = Time([&] { attend(true); });
    const double compact = Time([&] { backend->Compact(items, *a.store); });
    full.push_back(without);
    scores.push_back(with / without - 1);
    choice.push_back(compact / without);
  }
  Print("prefill", dtype, 1, slots, Median(full), Median(scores), Median(choice));
}

}  // namespace
}  // namespace hydrant::bench

int main() {
  using hydrant::kernels::KvDType;
  std::printf("%s\n\n", std::string(hydrant::bench::MakeBackend(1)->name()).c_str());
  std::printf(
      "| phase | KV | sequences | slots | attention of FULL, ms | scores | victims | together |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const KvDType dtype : hydrant::kernels::kKvDTypes) {
    for (const int slots : {256, 1024, 4096}) hydrant::bench::Decode(dtype, 1, slots);
    hydrant::bench::Decode(dtype, 16, 256);
    hydrant::bench::Decode(dtype, 16, 1024);
    for (const int slots : {512, 2048, 3840}) hydrant::bench::Prefill(dtype, slots);
  }
  return 0;
}
