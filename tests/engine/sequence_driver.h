// Runs requests through the scheduler and the model runner step by step, greedily and without
// stopping, and shows after each step what the KV cache holds: what golden traces are compared
// with.

#ifndef HYDRANT_TESTS_ENGINE_SEQUENCE_DRIVER_H_
#define HYDRANT_TESTS_ENGINE_SEQUENCE_DRIVER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/active_request.h"
#include "engine/kv_cache.h"
#include "engine/model_runner.h"
#include "engine/models/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "scheduler/scheduler.h"

namespace hydrant::engine {

// A sink for requests whose events nobody looks at.
class IgnoringSink : public ResponseSink {
 public:
  void OnPromptInfo(PromptInfo) override {}
  void OnDelta(Delta) override {}
  void OnFinished(Finished) override {}
  void OnError(absl::Status) override {}
};

// Python writes infinities, which JSON has not; they are read as null.
inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string infinity = "Infinity";
  for (size_t at; (at = text.find(infinity)) != std::string::npos;) {
    text.replace(at, infinity.size(), "null");
  }
  return nlohmann::json::parse(text);
}

// A checkpoint loaded for one backend, with room for `kv_slots`.
struct LoadedModel {
  LoadedModel(const std::string& path, std::unique_ptr<kernels::Backend> b,
              kernels::WeightDType weight_dtype, kernels::KvDType kv_dtype, int32_t max_rows,
              int64_t kv_slots)
      : backend(std::move(b)), max_rows(max_rows) {
    auto opened = weights::Checkpoint::Open(path);
    if (!opened.ok()) ADD_FAILURE() << opened.status();
    checkpoint = *std::move(opened);
    auto loaded_tokenizer = checkpoint->LoadTokenizer();
    if (!loaded_tokenizer.ok()) ADD_FAILURE() << loaded_tokenizer.status();
    tokenizer = *std::move(loaded_tokenizer);
    const ModelConfig& config = checkpoint->config();
    Model::Options options;
    options.weight_dtype = weight_dtype;
    options.max_rows = max_rows;
    options.max_slots = config.max_position_embeddings;
    auto loaded = Model::Load(*checkpoint, *backend, options, [](double) {});
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    model = *std::move(loaded);
    kernels::KvGeometry geometry{
        config.num_hidden_layers, config.num_key_value_heads, config.head_dim, kv_dtype, 0,
        config.sliding_windows};
    const int64_t blocks = (kv_slots + kernels::kBlockSlots - 1) / kernels::kBlockSlots;
    auto created = KvCache::Create(*backend, geometry,
                                   blocks * static_cast<int64_t>(backend->KvBlockBytes(geometry)));
    if (!created.ok()) ADD_FAILURE() << created.status();
    kv_cache = *std::move(created);
    kv = &kv_cache->store();
  }

  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<weights::Checkpoint> checkpoint;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<KvCache> kv_cache;
  kernels::KvStore* kv = nullptr;
  int32_t max_rows;
};

struct DriverRequest {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 1;
  std::optional<kernels::EvictionPolicy> policy;
  bool prompt_logprobs = false;
  int32_t arrival_step = 0;
  scheduler::PrefillEviction prefill_eviction = scheduler::PrefillEviction::kAfterPrompt;
};

struct DriverResult {
  std::vector<int32_t> tokens;  // generated
  std::vector<float> first_logits;
  std::vector<float> prompt_logprobs;  // of prompt tokens 1...
  // [step][layer][head]: positions held after each step that fed a token to the model, ascending.
  std::vector<std::vector<std::vector<std::vector<int32_t>>>> kept;
  int32_t preemptions = 0;
};

class SequenceDriver {
 public:
  SequenceDriver(LoadedModel& loaded, int32_t max_batched_tokens, int32_t max_num_seqs)
      : loaded_(loaded),
        runner_(*loaded.model, *loaded.backend, *loaded.kv, max_batched_tokens, max_num_seqs),
        scheduler_(Options(loaded, max_batched_tokens, max_num_seqs)) {}

  // `trace`: record what is kept after the prompt and after each decode step.
  std::vector<DriverResult> Run(const std::vector<DriverRequest>& requests, bool trace) {
    std::vector<std::unique_ptr<ActiveRequest>> active(requests.size());
    std::vector<DriverResult> results(requests.size());
    std::vector<bool> done(requests.size());
    const auto index_of = [&](const ActiveRequest& r) { return std::stoul(r.id); };
    for (int step = 0; std::count(done.begin(), done.end(), false) > 0; ++step) {
      for (size_t i = 0; i < requests.size(); ++i) {
        if (!active[i] && requests[i].arrival_step <= step) active[i] = Start(requests[i], i);
      }
      const scheduler::SchedulerOutput output = scheduler_.Schedule();
      if (output.empty()) continue;
      runner_.Run(output);
      scheduler_.Commit(output);
      std::vector<ActiveRequest*> finished;
      runner_.ForEachPrediction([&](const ModelRunner::Prediction& prediction) {
        ActiveRequest& r = prediction.request;
        DriverResult& result = results[index_of(r)];
        if (const int32_t next = prediction.position + 1; next < r.request.prompt_tokens) {
          result.prompt_logprobs.push_back(LogSoftmax(prediction.ReadLogits(), r.tokens[next]));
          return;
        }
        if (result.first_logits.empty()) {
          const std::span<const float> logits = prediction.ReadLogits();
          result.first_logits.assign(logits.begin(), logits.end());
        }
        r.tokens.push_back(prediction.token.value());
        ++r.num_tokens;
        result.tokens.push_back(r.tokens.back());
        if (r.completion_tokens() == r.request.max_tokens) finished.push_back(&r);
      });
      runner_.Evict(output, scheduler_, [](ActiveRequest&, int32_t, int32_t) {});
      if (trace) {
        for (const scheduler::ScheduledSequence& s : output.scheduled) {
          ActiveRequest& r = *static_cast<ActiveRequest*>(s.sequence);
          if (!r.in_prompt()) results[index_of(r)].kept.push_back(Kept(r));
        }
      }
      for (ActiveRequest* r : finished) {
        const size_t i = index_of(*r);
        results[i].preemptions = r->preemptions;
        scheduler_.Finish(r);
        done[i] = true;
      }
      scheduler_.CheckInvariants();
    }
    EXPECT_EQ(scheduler_.blocks().free(), scheduler_.blocks().total());
    return results;
  }

 private:
  static scheduler::SchedulerOptions Options(const LoadedModel& loaded, int32_t max_batched_tokens,
                                             int32_t max_num_seqs) {
    scheduler::SchedulerOptions options;
    options.num_blocks = loaded.kv->geometry().num_blocks;
    options.max_num_seqs = max_num_seqs;
    options.max_batched_tokens = max_batched_tokens;
    return options;
  }

  std::unique_ptr<ActiveRequest> Start(const DriverRequest& r, size_t index) {
    scheduler::Request shape;
    shape.arrival = static_cast<int64_t>(index);
    shape.prompt_tokens = static_cast<int32_t>(r.prompt.size());
    shape.max_tokens = r.max_tokens;
    shape.prefill_eviction = r.prefill_eviction;
    ResolvedRequest resolved;
    resolved.policy = r.policy;
    resolved.sampling.temperature = 0;
    if (r.policy) shape.budget = r.policy->budget();
    if (r.prompt_logprobs) resolved.output.prompt_logprobs = 0;
    auto active = std::make_unique<ActiveRequest>(
        std::to_string(index), shape, r.prompt, resolved, *loaded_.tokenizer,
        loaded_.model->config().vocab_size, std::make_unique<IgnoringSink>());
    EXPECT_TRUE(scheduler_.CheckFits(shape).ok()) << scheduler_.CheckFits(shape);
    scheduler_.Add(active.get());
    return active;
  }

  static float LogSoftmax(std::span<const float> logits, int32_t token) {
    const double max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float x : logits) sum += std::exp(x - max);
    return static_cast<float>(logits[token] - max - std::log(sum));
  }

  std::vector<std::vector<std::vector<int32_t>>> Kept(const ActiveRequest& r) const {
    const HeldTokens held = runner_.Held(r);
    std::vector<std::vector<std::vector<int32_t>>> kept(held.layers);
    auto next = held.positions.begin();
    for (auto& heads : kept) {
      for (int32_t head = 0; head < held.kv_heads; ++head, next += held.count) {
        heads.emplace_back(next, next + held.count);
      }
    }
    return kept;
  }

  LoadedModel& loaded_;
  ModelRunner runner_;
  scheduler::Scheduler scheduler_;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_TESTS_ENGINE_SEQUENCE_DRIVER_H_
