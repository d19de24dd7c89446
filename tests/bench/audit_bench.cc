// What an audit costs: the same requests with and without one, in one process and alternating.
//
//   audit_bench MODEL
//
// One compute thread, in processor time of the whole process, so that other work on the machine
// counts little. Each figure is the median of pairs. Build in Release.

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kernels/check.h"
#include "tests/bench/processor_time.h"

namespace hydrant::bench {
namespace {

constexpr int kPairs = 5;

// What the requests of one run have in common.
struct Run {
  std::mutex mutex;
  std::condition_variable changed;
  int first_tokens = 0;
  int ended = 0;
  double decode_start = 0;  // when the last of the first tokens came
  double decode_end = 0;    // when the first request ended
  engine::Recall recall;    // of the last
};

class Sink : public engine::ResponseSink {
 public:
  Sink(Run& run, int requests) : run_(run), requests_(requests) {}
  void OnPromptInfo(engine::PromptInfo) override {}
  void OnDelta(engine::Delta) override {
    if (std::exchange(started_, true)) return;
    std::lock_guard lock(run_.mutex);
    if (++run_.first_tokens == requests_)
      run_.decode_start = ProcessorSeconds(CLOCK_PROCESS_CPUTIME_ID);
  }
  void OnFinished(engine::Finished finished) override {
    std::lock_guard lock(run_.mutex);
    if (run_.ended++ == 0) run_.decode_end = ProcessorSeconds(CLOCK_PROCESS_CPUTIME_ID);
    if (finished.usage.recall) run_.recall = *finished.usage.recall;
    run_.changed.notify_all();
  }
  void OnError(absl::Status status) override {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    HYDRANT_CHECK(false);
  }

 private:
  Run& run_;
  const int requests_;
  bool started_ = false;
};

struct Workload {
  int requests, prompt, tokens, budget;
};

// Processor seconds of the decode steps that all requests share.
double Decode(engine::Engine& engine, const Workload& w, bool audit, engine::Recall* recall) {
  Run run;
  for (int r = 0; r < w.requests; ++r) {
    engine::GenerateRequest request;
    std::vector<int32_t> prompt(w.prompt);
    for (int i = 0; i < w.prompt; ++i) prompt[i] = 100 + (r * 7919 + i * 104729) % 20000;
    request.input = std::move(prompt);
    request.sampling.temperature = 0;
    request.stopping.max_tokens = w.tokens;
    request.stopping.ignore_eos = true;
    request.eviction.policy = engine::EvictionPolicyKind::kH2O;
    request.eviction.budget_tokens = w.budget;
    request.eviction.audit = audit;
    HYDRANT_CHECK(engine.Submit(std::move(request), std::make_unique<Sink>(run, w.requests)).ok());
  }
  std::unique_lock lock(run.mutex);
  run.changed.wait(lock, [&] { return run.ended == w.requests; });
  if (audit) *recall = run.recall;
  return run.decode_end - run.decode_start;
}

void Measure(engine::Engine& engine, const Workload& w) {
  engine::Recall recall;
  Decode(engine, w, true, &recall);  // warms up
  std::vector<double> ratios, plain;
  for (int pair = 0; pair < kPairs; ++pair) {
    const bool audited_first = pair % 2 == 1;
    double seconds[2];
    for (const bool audit : {audited_first, !audited_first}) {
      seconds[audit] = Decode(engine, w, audit, &recall);
    }
    plain.push_back(seconds[0]);
    ratios.push_back(seconds[1] / seconds[0] - 1);
  }
  std::sort(plain.begin(), plain.end());
  std::sort(ratios.begin(), ratios.end());
  std::printf("| %d | %d + %d | %d | %.2f | %+.1f %% | %+.1f to %+.1f %% | %d | %.3f |\n",
              w.requests, w.prompt, w.tokens, w.budget, plain[kPairs / 2], ratios[kPairs / 2] * 100,
              ratios.front() * 100, ratios.back() * 100, recall.steps, recall.mean);
  std::fflush(stdout);
}

int Main(const std::string& model) {
  engine::EngineOptions options;
  options.model_path = model;
  options.threads = 1;
  options.audit_bytes = int64_t{2} << 30;
  options.kv_cache_bytes = int64_t{400} << 20;
  auto engine = engine::Engine::Load(options, nullptr, [](std::string_view, double) {});
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().ToString().c_str());
    return 1;
  }
  std::printf(
      "| requests | tokens | budget | decode without, s | audited | range | steps audited | recall "
      "|\n|---|---|---|---|---|---|---|---|\n");
  for (const Workload& w : {Workload{1, 512, 256, 256},
                            {1, 1500, 256, 1024},
                            {16, 512, 128, 128},
                            {16, 512, 128, 400}}) {
    Measure(**engine, w);
  }
  return 0;
}

}  // namespace
}  // namespace hydrant::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: audit_bench MODEL\n");
    return 2;
  }
  return hydrant::bench::Main(argv[1]);
}
