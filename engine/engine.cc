#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/audit.h"
#include "engine/kv_cache.h"
#include "engine/memory_limit.h"
#include "engine/model_runner.h"
#include "engine/models/model.h"
#include "engine/request_resolver.h"
#include "engine/step_loop.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/turn_end.h"
#include "engine/weights/checkpoint.h"
#include "scheduler/scheduler.h"

namespace hydrant::engine {
namespace {

absl::StatusOr<std::unique_ptr<kernels::Backend>> CreateBackend(const EngineOptions& options) {
  if (options.device == "reference") return kernels::CreateReferenceBackend();
  if (options.device == "auto" || options.device == "cpu") {
    return kernels::CreateCpuBackend({.threads = options.threads});
  }
  if (options.device == "cuda") {
    auto backend = kernels::CreateCudaBackend();
    if (backend.ok()) return backend;
    return absl::Status(backend.status().code(),
                        absl::StrCat("device cuda: ", backend.status().message()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device \"", options.device, "\" is unknown; use auto, cpu, cuda or reference"));
}

// Of a packed weight, its part of a group's range included.
int64_t WeightBits(kernels::WeightDType dtype) {
  using enum kernels::WeightDType;
  return dtype == kF32 ? 32 : dtype == kBF16 ? 16 : dtype == kInt8 ? 8 : 5;
}

constexpr int64_t kMaxThreads = 1024;
// The activations of a pass take memory for each row.
constexpr int64_t kMaxBatchedTokens = 65536;
constexpr double kMaxPriorityAging = 24 * 60 * 60;

absl::Status ValidateOptions(const EngineOptions& o) {
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value >= least) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be at least ", least, ", got ", value));
  };
  const auto at_most = [](const char* name, int64_t value, int64_t most) {
    if (value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be at most ", most, ", got ", value));
  };
  for (const absl::Status& status : {
           at_least("threads", o.threads, 0),
           at_most("threads", o.threads, kMaxThreads),
           at_least("kv_cache_bytes", o.kv_cache_bytes, 0),
           at_least("max_num_seqs", o.max_num_seqs, 1),
           at_most("max_batched_tokens", o.max_batched_tokens, kMaxBatchedTokens),
           at_least("max_queue", o.queue.max_requests, 1),
           at_least("max_queue_tokens", o.queue.max_tokens, 0),
           at_least("max_model_len", o.max_model_len, 0),
           at_least("max_tokens_limit", o.max_tokens_limit, 0),
           at_least("audit_bytes", o.audit_bytes, 0),
           at_least("budget_tokens", o.eviction.budget_tokens.value_or(1), 1),
       }) {
    if (!status.ok()) return status;
  }
  // Every running sequence decodes one token a step.
  if (o.max_batched_tokens < o.max_num_seqs) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_batched_tokens must be at least max_num_seqs, ", o.max_num_seqs, ", got ",
                     o.max_batched_tokens));
  }
  if (const auto ratio = o.eviction.budget_ratio; ratio && !(*ratio > 0 && *ratio <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget_ratio must be above 0 and at most 1, got ", *ratio));
  }
  if (!(o.priority_aging >= 0 && o.priority_aging <= kMaxPriorityAging)) {
    return absl::InvalidArgumentError(absl::StrCat("priority_aging must be from 0 to ",
                                                   kMaxPriorityAging, " seconds, got ",
                                                   o.priority_aging));
  }
  if (o.queue.timeout && !(o.queue.timeout->count() > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue_timeout must be above 0 seconds, got ", o.queue.timeout->count()));
  }
  if (!(o.audit_rate >= 0 && o.audit_rate <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("audit_rate must be from 0 to 1, got ", o.audit_rate));
  }
  if (o.audit_rate > 0 && o.audit_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("audit_rate is ", o.audit_rate, ", but audit_bytes is 0: audits need memory"));
  }
  if (const int64_t available = AvailableMemoryBytes();
      available > 0 && o.audit_bytes > available) {
    return absl::InvalidArgumentError(absl::StrCat("audit_bytes: ", o.audit_bytes,
                                                   " bytes are more than the ", available,
                                                   " that this machine or its cgroup has left"));
  }
  return absl::OkStatus();
}

// The scheduler serves by this, higher first, then by arrival. It need not change while a request
// waits: all age at the same pace. Fits, as priorities are bounded.
int64_t AgedPriority(int32_t priority, Clock::time_point submitted, double aging_seconds) {
  if (aging_seconds == 0) return priority;
  using std::chrono::microseconds;
  const int64_t came =
      std::chrono::duration_cast<microseconds>(submitted.time_since_epoch()).count();
  return static_cast<int64_t>(priority * (aging_seconds * 1e6)) - came;
}

class LoadedEngine final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Load(const EngineOptions& options,
                                                      std::shared_ptr<EngineObserver> observer,
                                                      const Progress& progress);

  absl::Status Submit(GenerateRequest request, std::unique_ptr<ResponseSink> sink,
                      std::optional<Clock::time_point> deadline) override;
  absl::Status CheckRoom() override { return loop_->CheckRoom(); }
  bool Cancel(std::string_view request_id) override { return loop_->Cancel(request_id); }
  void StartDraining() override { loop_->StartDraining(); }
  void GiveUp() override { loop_->GiveUp(); }
  bool Drained() const override { return loop_->Drained(); }
  void AbortAll(absl::Status status) override { loop_->AbortAll(std::move(status)); }
  const ModelInfo& model_info() const override { return info_; }
  LoadStats load() const override { return loop_->load(); }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  absl::StatusOr<std::string> RenderChat(const chat::Conversation& conversation) const override;

 private:
  absl::Status LoadParts(const EngineOptions& options, const Progress& progress);
  void FillInfo(const EngineOptions& options, kernels::WeightDType weight_dtype);
  absl::StatusOr<std::vector<int32_t>> Tokenize(const GenerateRequest& request) const;
  // What Submit does between taking a place in the queue and handing over.
  absl::StatusOr<std::unique_ptr<ActiveRequest>> Prepare(const GenerateRequest& request,
                                                         std::string id,
                                                         std::unique_ptr<ResponseSink> sink,
                                                         Clock::time_point submitted);

  std::shared_ptr<EngineObserver> observer_;
  ModelInfo info_;
  ResolverContext resolver_;
  AuditShape audit_shape_;
  double audit_rate_ = 0;
  double priority_aging_ = 0;
  std::atomic<int64_t> arrivals_{0};
  // In the order of their making; the loop, which uses all of them, ends first.
  std::unique_ptr<weights::Checkpoint> checkpoint_;
  std::unique_ptr<Tokenizer> tokenizer_;
  absl::StatusOr<chat::Template> template_ = absl::UnimplementedError(
      "input.chat: the checkpoint has no chat template; send text or token_ids");
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvCache> kv_cache_;
  std::unique_ptr<AuditMemory> audit_memory_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<StepLoop> loop_;
};

absl::StatusOr<std::unique_ptr<Engine>> LoadedEngine::Load(const EngineOptions& options,
                                                           std::shared_ptr<EngineObserver> observer,
                                                           const Progress& progress) {
  if (absl::Status status = ValidateOptions(options); !status.ok()) return status;
  auto engine = std::make_unique<LoadedEngine>();
  engine->observer_ = observer ? std::move(observer) : std::make_shared<EngineObserver>();
  if (absl::Status status = engine->LoadParts(options, progress); !status.ok()) return status;
  return std::unique_ptr<Engine>(std::move(engine));
}

absl::Status LoadedEngine::LoadParts(const EngineOptions& options, const Progress& progress) {
  const auto take = [](auto& target, auto result) {
    if (result.ok()) target = *std::move(result);
    return result.status();
  };
  absl::Status status;
  progress("opening the checkpoint", 0);
  status = take(checkpoint_, weights::Checkpoint::Open(options.model_path));
  if (!status.ok()) return status;
  status = take(tokenizer_, checkpoint_->LoadTokenizer());
  if (!status.ok()) return status;
  if (checkpoint_->chat_template()) {
    template_ = chat::Template::Parse(*checkpoint_->chat_template(), tokenizer_->named_tokens());
  }
  status = take(backend_, CreateBackend(options));
  if (!status.ok()) return status;

  const ModelConfig& config = checkpoint_->config();
  kernels::KvGeometry geometry;
  geometry.layers = config.num_hidden_layers;
  geometry.kv_heads = config.num_key_value_heads;
  geometry.head_dim = config.head_dim;
  geometry.dtype = options.kv_dtype;
  geometry.windows = config.sliding_windows;

  Model::Options model_options;
  // The fastest path whose perplexity is that of f32: see WeightDType.
  model_options.weight_dtype = options.weight_dtype.value_or(kernels::WeightDType::kInt8);
  model_options.max_rows = options.max_batched_tokens;
  int64_t kv_bytes = options.kv_cache_bytes;
  if (kv_bytes == 0) {
    // A device may hold the embedding in f32 beside its packed weights.
    const int64_t embedding_bytes =
        int64_t{config.vocab_size} * config.embedding_size() * sizeof(float);
    kv_bytes = DefaultKvCacheBytes(
        *backend_, checkpoint_->num_parameters() * WeightBits(model_options.weight_dtype) / 8 +
                       embedding_bytes);
  }
  const int32_t context = options.max_model_len > 0
                              ? std::min(options.max_model_len, config.max_position_embeddings)
                              : config.max_position_embeddings;
  // Before the weights are packed, so that a size that cannot be had is told at once.
  status = take(kv_cache_, KvCache::Create(*backend_, geometry, kv_bytes));
  if (!status.ok()) return status;
  const int64_t kv_slots = int64_t{kv_cache_->num_blocks()} * kernels::kBlockSlots;
  // No sequence holds more than the cache does, whatever context a checkpoint claims.
  model_options.max_slots = std::min<int64_t>(context, kv_slots);
  status = take(model_, Model::Load(*checkpoint_, *backend_, model_options,
                                    [&](double ratio) { progress("packing the weights", ratio); }));
  if (!status.ok()) return status;
  checkpoint_->DropPages();

  resolver_.generation = checkpoint_->generation_config();
  std::vector<int32_t>& eos = resolver_.generation.eos_token_ids;
  eos = weights::EosTokenIds(resolver_.generation, *tokenizer_);
  if (template_.ok()) {
    const std::optional<int32_t> id = EndOfTurn(*template_, *tokenizer_);
    if (id && std::find(eos.begin(), eos.end(), *id) == eos.end()) eos.push_back(*id);
  }
  // What lies past the vocabulary the model cannot choose.
  std::erase_if(eos, [&](int32_t id) { return id >= config.vocab_size; });
  resolver_.eviction = options.eviction;
  resolver_.vocab_size = config.vocab_size;
  resolver_.max_model_len = context;
  resolver_.max_tokens_limit = options.max_tokens_limit;
  resolver_.kv_slots = kv_slots;
  audit_rate_ = options.audit_rate;
  priority_aging_ = options.priority_aging;
  audit_shape_ = {geometry.layers, config.num_attention_heads, geometry.kv_heads,
                  geometry.head_dim};
  audit_memory_ = std::make_unique<AuditMemory>(options.audit_bytes);
  resolver_.audit_bytes = options.audit_bytes;
  resolver_.audit_block_bytes = audit_shape_.block_bytes();
  FillInfo(options, model_options.weight_dtype);

  runner_ = std::make_unique<ModelRunner>(*model_, *backend_, kv_cache_->store(),
                                          options.max_batched_tokens, options.max_num_seqs);
  scheduler::SchedulerOptions scheduling;
  scheduling.num_blocks = kv_cache_->num_blocks();
  scheduling.max_num_seqs = options.max_num_seqs;
  scheduling.max_batched_tokens = options.max_batched_tokens;
  loop_ = std::make_unique<StepLoop>(scheduling, options.queue, info_.name, *runner_, *kv_cache_,
                                     *audit_memory_, *tokenizer_, *observer_);
  progress("ready", 1);
  return absl::OkStatus();
}

void LoadedEngine::FillInfo(const EngineOptions& options, kernels::WeightDType weight_dtype) {
  const ModelConfig& config = checkpoint_->config();
  info_.name =
      options.model_name.empty() ? DefaultModelName(options.model_path) : options.model_name;
  info_.architecture = config.model_type;
  info_.path = options.model_path;
  info_.parameters = checkpoint_->num_parameters();
  info_.vocab_size = config.vocab_size;
  info_.max_model_len = resolver_.max_model_len;
  info_.num_layers = config.num_hidden_layers;
  info_.num_heads = config.num_attention_heads;
  info_.num_kv_heads = config.num_key_value_heads;
  info_.head_dim = config.head_dim;
  info_.hidden_size = config.hidden_size;
  info_.backend = std::string(backend_->name());
  info_.weight_dtype = std::string(kernels::WeightDTypeName(weight_dtype));
  info_.kv_dtype = std::string(kernels::KvDTypeName(options.kv_dtype));
  info_.weight_bytes = static_cast<int64_t>(model_->weight_bytes());
  info_.kv_blocks = kv_cache_->num_blocks();
  info_.block_slots = kernels::kBlockSlots;
  info_.kv_bytes_per_token = kv_cache_->block_bytes() / kernels::kBlockSlots;
  info_.kv_cache_bytes = kv_cache_->block_bytes() * kv_cache_->num_blocks();
  info_.has_chat_template = template_.ok();
  info_.eos_token_ids = resolver_.generation.eos_token_ids;
  info_.eviction = options.eviction;
}

absl::StatusOr<std::string> LoadedEngine::RenderChat(const chat::Conversation& conversation) const {
  if (!template_.ok()) return template_.status();
  return template_->Render(conversation);
}

absl::StatusOr<std::vector<int32_t>> LoadedEngine::Tokenize(const GenerateRequest& request) const {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.input)) return *ids;
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    return tokenizer_->Encode(*text, /*add_special_tokens=*/true);
  }
  auto rendered = RenderChat(std::get<chat::Conversation>(request.input));
  if (!rendered.ok()) return rendered.status();
  return tokenizer_->Encode(*rendered, /*add_special_tokens=*/false);
}

absl::StatusOr<std::unique_ptr<ActiveRequest>> LoadedEngine::Prepare(
    const GenerateRequest& request, std::string id, std::unique_ptr<ResponseSink> sink,
    Clock::time_point submitted) {
  if (absl::Status status = ValidateParameters(request, resolver_); !status.ok()) return status;
  auto prompt = Tokenize(request);
  if (!prompt.ok()) return prompt.status();
  auto resolved = Resolve(request, *prompt, resolver_);
  if (!resolved.ok()) return resolved.status();

  scheduler::Request shape;
  shape.arrival = arrivals_.fetch_add(1);
  shape.priority = AgedPriority(request.priority, submitted, priority_aging_);
  shape.prompt_tokens = static_cast<int32_t>(prompt->size());
  shape.max_tokens = resolved->max_tokens;
  if (resolved->policy) shape.budget = resolved->policy->budget();
  if (resolved->eviction.prefill_eviction == PrefillEviction::kPerChunk) {
    shape.prefill_eviction = scheduler::PrefillEviction::kPerChunk;
  }
  if (absl::Status status = loop_->CheckFits(shape); !status.ok()) return status;
  if (!request.eviction.audit) {
    resolved->eviction.audit = IsSampledForAudit(shape.arrival, audit_rate_);
  }
  const bool audit = resolved->eviction.audit;
  auto active = std::make_unique<ActiveRequest>(std::move(id), shape, *std::move(prompt),
                                                *std::move(resolved), *tokenizer_,
                                                resolver_.vocab_size, std::move(sink));
  active->submitted = submitted;
  if (audit) active->audit = std::make_unique<Audit>(audit_shape_, *audit_memory_);
  return active;
}

absl::Status LoadedEngine::Submit(GenerateRequest request, std::unique_ptr<ResponseSink> sink,
                                  std::optional<Clock::time_point> deadline) {
  const Clock::time_point submitted = Clock::now();
  if (absl::Status status = CheckModel(request.model); !status.ok()) {
    observer_->OnRejected("unknown_model");
    return status;
  }
  const std::string id =
      request.request_id.empty() ? NewRequestId() : std::move(request.request_id);
  if (absl::Status status = loop_->Reserve(id); !status.ok()) {
    observer_->OnRejected(absl::IsResourceExhausted(status) ? "queue_full"
                          : absl::IsAlreadyExists(status)   ? "duplicate_id"
                                                            : "draining");
    return status;
  }
  // Tokenising a long text for nobody would hold up others.
  const bool late = deadline && *deadline <= submitted;
  auto active = late ? absl::DeadlineExceededError("the request's deadline has passed")
                     : Prepare(request, id, std::move(sink), submitted);
  if (!active.ok()) {
    loop_->Unreserve(id);
    observer_->OnRejected(late                                     ? "deadline"
                          : absl::IsUnimplemented(active.status()) ? "unimplemented"
                                                                   : "invalid_argument");
    return active.status();
  }
  (*active)->deadline = deadline;
  absl::Status status = loop_->Submit(*std::move(active));
  if (!status.ok()) observer_->OnRejected("queue_full");
  return status;
}

}  // namespace

std::string NewRequestId() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrCat("gen-", absl::Hex(random(), absl::kZeroPad16));
}

absl::Status Engine::CheckModel(std::string_view model) const {
  const std::string& name = model_info().name;
  if (model.empty() || model == name) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("model: \"", std::string(model),
                                          "\" is not served here; this server has \"", name, "\""));
}

std::string DefaultModelName(const std::string& model_path) {
  std::filesystem::path path(model_path);
  if (!path.has_filename()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Load(const EngineOptions& options,
                                                     std::shared_ptr<EngineObserver> observer,
                                                     const Progress& progress) {
  return LoadedEngine::Load(options, std::move(observer), progress);
}

}  // namespace hydrant::engine
