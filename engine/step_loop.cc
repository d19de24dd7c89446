#include "engine/step_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/status_details.h"
#include "kernels/check.h"

namespace hydrant::engine {
namespace {

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

int64_t UnixMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ActiveRequest& AsActive(scheduler::Sequence* sequence) {
  return *static_cast<ActiveRequest*>(sequence);
}

}  // namespace

StepLoop::StepLoop(const scheduler::SchedulerOptions& options, const QueueLimits& limits,
                   std::string model_name, ModelRunner& runner, KvCache& kv_cache,
                   const AuditMemory& audit_memory, const Tokenizer& tokenizer,
                   EngineObserver& observer)
    : max_num_seqs_(options.max_num_seqs),
      limits_(limits),
      model_name_(std::move(model_name)),
      runner_(runner),
      kv_cache_(kv_cache),
      audit_memory_(audit_memory),
      tokenizer_(tokenizer),
      observer_(observer),
      scheduler_(options) {
  load_.kv_blocks_total = load_.kv_blocks_free = options.num_blocks;
  load_.audit_bytes_limit = audit_memory.limit();
  thread_ = std::thread([this] { Run(); });
}

StepLoop::~StepLoop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    load_.draining = true;
    abort_all_ = absl::UnavailableError("the server is shutting down");
  }
  wake_.notify_one();
  thread_.join();
}

void StepLoop::Run() {
  while (TakeInbox()) {
    Expire();
    if (!requests_.empty()) Step();
    PublishLoad();
    TellEnded();
  }
  HYDRANT_CHECK(requests_.empty());
}

bool StepLoop::TakeInbox() {
  std::vector<std::unique_ptr<ActiveRequest>> submitted;
  std::vector<std::string> cancelled;
  std::optional<absl::Status> abort_all;
  {
    std::unique_lock lock(mutex_);
    if (requests_.empty()) {
      wake_.wait(lock,
                 [&] { return stop_ || abort_all_ || !submitted_.empty() || !cancelled_.empty(); });
    }
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
    abort_all.swap(abort_all_);
    if (stop_ && submitted.empty() && requests_.empty()) return false;
  }
  taken_ += static_cast<int32_t>(submitted.size());
  for (std::unique_ptr<ActiveRequest>& request : submitted) {
    ActiveRequest& r = *request;
    taken_tokens_ += r.request.prompt_tokens;
    scheduler_.Add(&r);
    requests_.emplace(r.id, std::move(request));
  }
  for (const std::string& id : cancelled) {
    const auto it = requests_.find(id);
    if (it == requests_.end()) continue;  // it ended while the call was on its way
    Fail(*it->second, absl::CancelledError("the request was cancelled"),
         RequestOutcome::kCancelled);
  }
  if (abort_all) {
    while (!requests_.empty()) {
      Fail(*requests_.begin()->second, *abort_all, RequestOutcome::kError);
    }
  }
  return true;
}

void StepLoop::Expire() {
  const Clock::time_point now = Clock::now();
  std::vector<ActiveRequest*> expired, shed;
  for (const auto& [id, request] : requests_) {
    if (request->deadline && *request->deadline <= now) {
      expired.push_back(request.get());
    } else if (limits_.timeout && !request->admitted &&
               now - request->submitted >= *limits_.timeout) {
      shed.push_back(request.get());
    }
  }
  for (ActiveRequest* request : expired) {
    Fail(*request, absl::DeadlineExceededError("the request's deadline has passed"),
         RequestOutcome::kDeadline);
  }
  for (ActiveRequest* request : shed) {
    absl::Status status = WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                         "the request waited for queue_timeout, ",
                                         limits_.timeout->count(), " s, and did not start")),
                                     "QUEUE_TIMEOUT");
    std::unique_lock lock(mutex_);
    const auto delay = turns_.Next(now);
    lock.unlock();
    Fail(*request, WithRetryDelay(std::move(status), delay), RequestOutcome::kQueueTimeout);
  }
}

void StepLoop::Step() {
  const Clock::time_point start = Clock::now();
  {
    std::lock_guard lock(mutex_);
    ++load_.steps_begun;
    load_.in_step = true;
  }
  const scheduler::SchedulerOutput& output = scheduler_.Schedule(cost_.DecodeWorth());
  // Whatever waits fits an empty pool, so something always runs.
  HYDRANT_CHECK(!output.empty());
  step_ = StepStats{};
  int32_t decodes = 0;
  step_.batch_size = static_cast<int32_t>(output.scheduled.size());
  step_.num_tokens = output.num_tokens;
  step_.preemptions = static_cast<int32_t>(output.preempted.size());
  for (const scheduler::ScheduledSequence& scheduled : output.scheduled) {
    if (AsActive(scheduled.sequence).in_prompt()) step_.prefill_tokens += scheduled.num_tokens;
    if (scheduled.num_tokens == 1 && scheduled.samples) ++decodes;
  }
  PublishLoad();
  Admit(output);
  kv_cache_.NoteHighWater(scheduler_.blocks().high_water());

  runner_.Run(output);
  scheduler_.Commit(output);
  for (const scheduler::ScheduledSequence& scheduled : output.scheduled) {
    ActiveRequest& request = AsActive(scheduled.sequence);
    request.peak_slots = std::max(request.peak_slots, request.num_slots);
  }
  runner_.ForEachPrediction([this](const ModelRunner::Prediction& p) { OnPrediction(p); });
  runner_.Evict(output, scheduler_, [this](ActiveRequest& request, int32_t tokens, int32_t freed) {
    request.evicted_tokens += tokens;
    observer_.OnEviction({request.applied.eviction.policy, tokens, freed});
  });
  step_.seconds = Seconds(Clock::now() - start);
  cost_.Observe(decodes, step_.num_tokens - decodes, step_.seconds);
  {
    std::lock_guard lock(mutex_);
    load_.last_step_unix_ms = UnixMilliseconds();
    load_.in_step = false;
  }
  observer_.OnStep(step_);
}

void StepLoop::Admit(const scheduler::SchedulerOutput& output) {
  for (scheduler::Sequence* sequence : output.preempted) {
    // What was told of the prompt so far is computed again.
    AsActive(sequence).prompt_info.prompt_logprobs.clear();
  }
  for (scheduler::Sequence* sequence : output.admitted) {
    ActiveRequest& request = AsActive(sequence);
    if (!request.admitted) {
      request.admitted = Clock::now();
      ++started_;
    }
    if (!request.applied.output.prompt_logprobs) SendPromptInfo(request);
  }
}

void StepLoop::SendPromptInfo(ActiveRequest& request) {
  if (request.prompt_info_sent) return;
  request.prompt_info_sent = true;
  PromptInfo info = std::move(request.prompt_info);
  info.request_id = request.id;
  info.model = model_name_;
  info.prompt_tokens = request.request.prompt_tokens;
  info.max_tokens = request.applied.max_tokens;
  info.sampling = request.applied.sampling;
  info.eviction = request.applied.eviction;
  request.sink->OnPromptInfo(std::move(info));
  if (request.applied.output.echo.value_or(false)) {
    Delta delta;
    delta.token_ids.assign(request.tokens.begin(),
                           request.tokens.begin() + request.request.prompt_tokens);
    delta.text = tokenizer_.Decode(delta.token_ids,
                                   request.applied.output.skip_special_tokens.value_or(true));
    request.sink->OnDelta(std::move(delta));
  }
}

TokenLogprobs StepLoop::Logprobs(std::span<const float> logits, int32_t token, int32_t top) const {
  TokenLogprobs logprobs = ComputeLogprobs(logits, token, top);
  for (TopLogprob& entry : logprobs.top) entry.text = tokenizer_.TokenText(entry.token_id);
  return logprobs;
}

void StepLoop::OnPrediction(const ModelRunner::Prediction& prediction) {
  ActiveRequest& request = prediction.request;
  if (const auto top = request.applied.output.prompt_logprobs; top && !request.prompt_info_sent) {
    std::vector<TokenLogprobs>& logprobs = request.prompt_info.prompt_logprobs;
    if (logprobs.empty()) logprobs.push_back({request.tokens[0], std::nullopt, {}});
    const int32_t next = prediction.position + 1;
    if (next < request.request.prompt_tokens) {
      logprobs.push_back(Logprobs(prediction.ReadLogits(), request.tokens[next], *top));
      return;
    }
    SendPromptInfo(request);
  }

  int32_t token;
  if (prediction.token) {
    token = *prediction.token;
    if (token < 0) {
      Fail(request, absl::InternalError("the model gave no finite logit"), RequestOutcome::kError);
      return;
    }
    request.sampler.Record(token);
  } else {
    token = request.applied.forced_tokens[request.completion_tokens()];
  }
  std::optional<TokenLogprobs> logprobs;
  if (const auto top = request.applied.output.logprobs) {
    logprobs = Logprobs(prediction.ReadLogits(), token, *top);
  }
  AppendToken(request, token, std::move(logprobs));
}

void StepLoop::AppendToken(ActiveRequest& request, int32_t token,
                           std::optional<TokenLogprobs> logprobs) {
  const Clock::time_point now = Clock::now();
  if (request.first_token) {
    observer_.OnInterToken(Seconds(now - request.last_token));
  } else {
    request.first_token = now;
    observer_.OnFirstToken(Seconds(now - request.submitted));
  }
  request.last_token = now;
  request.tokens.push_back(token);
  ++request.num_tokens;
  ++step_.generated_tokens;

  const bool hidden = request.stop.HidesText(token);
  StopChecker::Result result =
      request.stop.Add(token, hidden ? std::string() : request.detokenizer.Add(token));
  if (result.finished && !std::holds_alternative<std::string>(result.matched)) {
    // The last characters may complete a stop string after all.
    StopChecker::Result rest = request.stop.Flush(request.detokenizer.Flush());
    result.text += rest.text;
    if (rest.finished) {
      result.reason = rest.reason;
      result.matched = std::move(rest.matched);
    }
  }
  Delta delta;
  delta.text = std::move(result.text);
  delta.token_ids = {token};
  if (logprobs) delta.logprobs.push_back(*std::move(logprobs));
  request.sink->OnDelta(std::move(delta));
  if (result.finished) Finish(request, result.reason, std::move(result.matched));
}

Usage StepLoop::MakeUsage(const ActiveRequest& request, Clock::time_point now) const {
  Usage usage;
  usage.prompt_tokens = request.request.prompt_tokens;
  usage.completion_tokens = request.completion_tokens();
  usage.evicted_tokens = request.evicted_tokens;
  usage.peak_kv_tokens = request.peak_slots;
  usage.kv_bytes = scheduler::BlocksFor(request.peak_slots) * kv_cache_.block_bytes();
  usage.preemptions = request.preemptions;
  if (request.audit) usage.recall = request.audit->Result();
  const Clock::time_point admitted = request.admitted.value_or(now);
  const Clock::time_point first = request.first_token.value_or(now);
  usage.queue_seconds = Seconds(admitted - request.submitted);
  usage.prefill_seconds = Seconds(first - admitted);
  usage.decode_seconds = Seconds(now - first);
  return usage;
}

void StepLoop::Finish(ActiveRequest& request, FinishReason reason,
                      std::variant<std::monostate, std::string, int32_t> matched) {
  Finished finished;
  finished.reason = reason;
  finished.matched = std::move(matched);
  finished.usage = MakeUsage(request, Clock::now());
  if (request.applied.report_held) finished.held = runner_.Held(request);
  End(request, std::move(finished),
      reason == FinishReason::kStop ? RequestOutcome::kStop : RequestOutcome::kLength);
}

void StepLoop::Fail(ActiveRequest& request, absl::Status status, RequestOutcome outcome) {
  End(request, std::move(status), outcome);
}

void StepLoop::End(ActiveRequest& request, std::variant<Finished, absl::Status> result,
                   RequestOutcome outcome) {
  scheduler_.Finish(&request);
  if (request.audit) request.audit->Release();
  auto node = requests_.extract(request.id);
  ended_.push_back({std::move(node.mapped()), std::move(result), outcome});
}

void StepLoop::PublishLoad() {
  if (requests_.empty()) scheduler_.CheckInvariants();
  std::lock_guard lock(mutex_);
  load_.running = scheduler_.num_running();
  load_.waiting = scheduler_.num_waiting();
  load_.waiting_tokens = scheduler_.waiting_tokens();
  load_.kv_blocks_free = scheduler_.blocks().free();
  load_.audit_bytes_used = audit_memory_.used();
  pending_ -= std::exchange(taken_, 0);
  pending_tokens_ -= std::exchange(taken_tokens_, 0);
  turns_.Observe(std::exchange(started_, 0), load_.waiting, Clock::now());
  for (const Ended& ended : ended_) in_flight_.erase(ended.request->id);
}

void StepLoop::TellEnded() {
  const Clock::time_point now = Clock::now();
  for (Ended& ended : ended_) {
    ActiveRequest& request = *ended.request;
    RequestStats stats;
    stats.outcome = ended.outcome;
    stats.eviction = request.applied.eviction;
    stats.e2e_seconds = Seconds(now - request.submitted);
    if (request.first_token) {
      stats.time_to_first_token = Seconds(*request.first_token - request.submitted);
    }
    if (const Finished* finished = std::get_if<Finished>(&ended.result)) {
      stats.usage = finished->usage;
    } else {
      stats.usage = MakeUsage(request, now);
    }
    observer_.OnRequestEnd(stats);
    if (Finished* finished = std::get_if<Finished>(&ended.result)) {
      request.sink->OnFinished(std::move(*finished));
    } else {
      request.sink->OnError(std::get<absl::Status>(std::move(ended.result)));
    }
  }
  ended_.clear();
}

}  // namespace hydrant::engine
