// Engine: one model, one KV cache, one thread that steps. The public C++ API; the gRPC server and
// the local commands are its clients.
//
//   auto engine = Engine::Load(options, progress);
//   engine->Submit(request, std::make_unique<MySink>());   // from any thread
//   engine->Cancel("id");                                   // from any thread

#ifndef HYDRANT_ENGINE_ENGINE_H_
#define HYDRANT_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/queue_limits.h"
#include "engine/request.h"
#include "kernels/backend.h"

namespace hydrant::engine {

class Tokenizer;

// Receives one request's events. Every call comes from the engine thread and must not block:
// a sink queues and returns. Order: OnPromptInfo, OnDelta*, then exactly one of OnFinished and
// OnError; the sink is destroyed after that one.
class ResponseSink {
 public:
  virtual ~ResponseSink() = default;
  virtual void OnPromptInfo(PromptInfo info) = 0;
  virtual void OnDelta(Delta delta) = 0;
  virtual void OnFinished(Finished finished) = 0;
  virtual void OnError(absl::Status status) = 0;
};

struct StepStats {
  int32_t batch_size = 0;  // sequences in the pass
  int32_t num_tokens = 0;  // rows in the pass
  int32_t prefill_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t preemptions = 0;
  double seconds = 0;
};

// Once a sequence's slots went: by the policy that took them.
struct EvictionStats {
  EvictionPolicyKind policy = EvictionPolicyKind::kH2O;
  int64_t tokens = 0;        // for each layer and KV head
  int32_t blocks_freed = 0;  // returned to the pool by it
};

enum class RequestOutcome { kStop, kLength, kCancelled, kDeadline, kQueueTimeout, kError };

struct RequestStats {
  RequestOutcome outcome = RequestOutcome::kStop;
  AppliedEviction eviction;
  Usage usage;
  std::optional<double> time_to_first_token;  // seconds since Submit
  double e2e_seconds = 0;
};

// Hooks for metrics, called on the engine thread (OnRejected: on the submitter's). Must not block.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(const StepStats&) {}
  virtual void OnEviction(const EvictionStats&) {}
  virtual void OnFirstToken(double seconds_since_submit) {}
  virtual void OnInterToken(double seconds) {}
  virtual void OnRequestEnd(const RequestStats&) {}
  // reason: "queue_full", "invalid_argument", "draining", "duplicate_id", ...
  virtual void OnRejected(std::string_view reason) {}
};

struct EvictionDefaults {
  EvictionPolicyKind policy = EvictionPolicyKind::kH2O;
  std::optional<int32_t> budget_tokens = 1024;  // one of the two
  std::optional<float> budget_ratio;
  int32_t min_budget_tokens = 0;  // limits on what a request may ask; 0: none
  int32_t max_budget_tokens = 0;
};

struct EngineOptions {
  std::string model_path;                            // a .gguf file or a Hugging Face directory
  std::string model_name;                            // as clients know it; empty: from the path
  std::string device = "auto";                       // auto (cpu), cpu, cuda, reference
  int threads = 0;                                   // 0: the cores this process may use
  std::optional<kernels::WeightDType> weight_dtype;  // unset: auto
  kernels::KvDType kv_dtype = kernels::KvDType::kBF16;
  int64_t kv_cache_bytes = 0;  // 0: as DefaultKvCacheBytes has it
  int32_t max_num_seqs = 256;
  int32_t max_batched_tokens = 512;
  QueueLimits queue;
  // A request is served as if it had come this many seconds earlier for each step of its priority,
  // so that no priority keeps others waiting for ever. 0: strictly by priority.
  double priority_aging = 10;
  int32_t max_model_len = 0;     // 0: the checkpoint's
  int32_t max_tokens_limit = 0;  // most that a request may ask, and gets unasked; 0: none
  EvictionDefaults eviction;
  double audit_rate = 0;              // share of requests audited that say nothing; [0, 1]
  int64_t audit_bytes = 256'000'000;  // for the keys that all audits keep; 0: no audits
};

// For a request whose client chose no id; unguessable enough not to meet one that was chosen.
// Thread-safe.
std::string NewRequestId();

// What a model is called when options name none: the directory, or the file without ".gguf".
std::string DefaultModelName(const std::string& model_path);

struct ModelInfo {
  std::string name;
  std::string architecture;
  std::string path;
  int64_t parameters = 0;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, hidden_size = 0;
  std::string backend;       // "cpu:avx512"
  std::string weight_dtype;  // "int8"
  std::string kv_dtype;      // "bf16"
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t kv_cache_bytes = 0;
  int32_t kv_blocks = 0;
  int32_t block_slots = 0;
  bool has_chat_template = false;
  std::vector<int32_t> eos_token_ids;
  EvictionDefaults eviction;
};

// A consistent snapshot of the gauges, taken between steps.
struct LoadStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int64_t waiting_tokens = 0;  // of their prompts
  int32_t kv_blocks_total = 0;
  int32_t kv_blocks_free = 0;
  int64_t audit_bytes_used = 0;  // keys of evicted tokens that audits keep
  int64_t audit_bytes_limit = 0;
  int64_t last_step_unix_ms = 0;
  int64_t steps_begun = 0;
  bool in_step = false;  // the last of them has not ended
  bool draining = false;
  bool healthy = true;  // false: given up
};

class Engine {
 public:
  // Told during Load: what is being done, and the share of it that is done, 0 to 1.
  using Progress = std::function<void(std::string_view stage, double ratio)>;

  // Opens, validates, packs and starts. Any file or option error is a Status that names it.
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const EngineOptions& options,
                                                      std::shared_ptr<EngineObserver> observer,
                                                      const Progress& progress);
  virtual ~Engine() = default;  // stops the thread; every open request ends with UNAVAILABLE

  // Validates and tokenises on the calling thread, then queues. On OK the sink will get exactly one
  // terminal event; otherwise it gets none. `deadline`: the request ends with DEADLINE_EXCEEDED
  // within one step of it, queued or running.
  //   INVALID_ARGUMENT    bad parameter or a prompt that can never fit, naming field and limit
  //   NOT_FOUND           unknown model          ALREADY_EXISTS  id in flight
  //   RESOURCE_EXHAUSTED  queue full (decided before tokenising, unless it is the prompt's own
  //                       length that is too much)
  //   UNAVAILABLE         draining or dead   DEADLINE_EXCEEDED  the deadline has passed already
  virtual absl::Status Submit(
      GenerateRequest request, std::unique_ptr<ResponseSink> sink,
      std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt) = 0;

  // What Submit would say to any request now: OK, UNAVAILABLE or RESOURCE_EXHAUSTED. At once, from
  // any thread; for those who would do something costly before Submit.
  virtual absl::Status CheckRoom() = 0;

  // Ends a request with CANCELLED within one step. False when no such id is in flight.
  virtual bool Cancel(std::string_view request_id) = 0;

  // Refuses what is new; running requests go on. Drained() when none is left.
  virtual void StartDraining() = 0;
  // A step will not end: as draining, and load() says so.
  virtual void GiveUp() = 0;
  virtual bool Drained() const = 0;
  // Ends every open request with `status`.
  virtual void AbortAll(absl::Status status) = 0;

  virtual const ModelInfo& model_info() const = 0;
  virtual LoadStats load() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // NOT_FOUND unless `model` is empty or the loaded model's name.
  absl::Status CheckModel(std::string_view model) const;
  // The prompt text of a conversation by the checkpoint's template.
  virtual absl::StatusOr<std::string> RenderChat(const chat::Conversation&) const = 0;
};

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_ENGINE_H_
