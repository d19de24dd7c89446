#include "engine/model_runner.h"

#include <algorithm>

#include "kernels/check.h"

namespace hydrant::engine {

static_assert(kernels::kBlockSlots == scheduler::kBlockSlots);

namespace {

ActiveRequest& AsActive(scheduler::Sequence* sequence) {
  return *static_cast<ActiveRequest*>(sequence);
}

}  // namespace

ModelRunner::ModelRunner(Model& model, kernels::Backend& backend, kernels::KvStore& kv,
                         int32_t max_rows, int32_t max_sequences)
    : model_(model), backend_(backend), kv_(kv) {
  batch_.token_ids.reserve(max_rows);
  batch_.positions.reserve(max_rows);
  batch_.logit_rows.reserve(max_rows);
  logit_rows_.reserve(max_rows);
  draws_.reserve(max_sequences);
  tokens_.reserve(max_sequences);
  batch_.sequences.reserve(max_sequences);
  evict_.reserve(max_sequences);
  compact_.reserve(max_sequences);
  evicting_.reserve(max_sequences);
  compacting_.reserve(max_sequences);
}

void ModelRunner::AddSequence(ActiveRequest& request,
                              const scheduler::ScheduledSequence& scheduled) {
  const int32_t first_position = request.num_computed_tokens;
  const int32_t count = scheduled.num_tokens;

  kernels::BatchSequence sequence;
  sequence.first_row = batch_.num_rows();
  sequence.num_rows = count;
  sequence.first_position = first_position;
  sequence.num_slots = request.num_slots + count;
  sequence.blocks = request.blocks.data();
  sequence.holes = request.has_hole ? request.holes.data() : nullptr;
  sequence.keep_scores =
      request.evicts() && request.applied.policy->needs_scores(kv_.geometry().has_windows());
  if (request.audit && !request.in_prompt() && count == 1) {
    sequence.audit = request.audit->BeginStep(sequence.num_slots);
  }
  HYDRANT_CHECK(!request.has_hole || count == 1);
  HYDRANT_CHECK(static_cast<size_t>(scheduler::BlocksFor(sequence.num_slots)) <=
                request.blocks.size());
  batch_.sequences.push_back(sequence);

  // A row's logits predict the token after it: wanted for the newest token, and for the prompt's
  // own tokens as long as their log-probabilities have not been delivered.
  const bool prompt_logprobs =
      request.applied.output.prompt_logprobs.has_value() && !request.prompt_info_sent;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t position = first_position + i;
    const bool samples = scheduled.samples && i + 1 == count;
    if (samples || (prompt_logprobs && position + 1 < request.request.prompt_tokens)) {
      batch_.logit_rows.push_back(sequence.first_row + i);
      logit_rows_.push_back({&request, position, samples && request.applied.forced_tokens.empty()});
    }
    batch_.token_ids.push_back(request.tokens[position]);
    batch_.positions.push_back(position);
  }
}

void ModelRunner::Run(const scheduler::SchedulerOutput& output) {
  batch_.token_ids.clear();
  batch_.positions.clear();
  batch_.sequences.clear();
  batch_.logit_rows.clear();
  logit_rows_.clear();
  for (const scheduler::ScheduledSequence& scheduled : output.scheduled) {
    AddSequence(AsActive(scheduled.sequence), scheduled);
  }
  model_.Forward(batch_, kv_);
  for (const scheduler::ScheduledSequence& scheduled : output.scheduled) {
    ActiveRequest& request = AsActive(scheduled.sequence);
    request.has_hole = false;
    if (request.audit) request.audit->EndStep();
  }
}

void ModelRunner::ForEachPrediction(const OnPrediction& on_prediction) {
  const std::span<const int32_t> rows = batch_.logit_rows;
  const size_t at_once = model_.max_logit_rows();
  for (size_t first = 0; first < rows.size(); first += at_once) {
    const size_t count = std::min(at_once, rows.size() - first);
    const kernels::Matrix logits = model_.Logits(rows.subspan(first, count));
    draws_.clear();
    for (size_t i = 0; i < count; ++i) {
      const LogitRow& row = logit_rows_[first + i];
      if (!row.draws) continue;
      draws_.push_back(row.request->sampler.Next(row.request->stop.banned()));
      draws_.back().row = static_cast<int64_t>(i);
    }
    tokens_.resize(draws_.size());
    if (!draws_.empty()) backend_.Sample(logits, draws_, tokens_);
    auto drawn = tokens_.begin();
    for (size_t i = 0; i < count; ++i) {
      const LogitRow& row = logit_rows_[first + i];
      const auto token = row.draws ? std::optional(*drawn++) : std::nullopt;
      on_prediction({*row.request,
                     row.position,
                     token,
                     backend_,
                     {logits.f32() + i * logits.cols, 1, logits.cols}});
    }
  }
}

void ModelRunner::Evict(const scheduler::SchedulerOutput& output, scheduler::Scheduler& scheduler,
                        const OnEviction& on_eviction) {
  evict_.clear();
  compact_.clear();
  evicting_.clear();
  compacting_.clear();
  for (const scheduler::ScheduledSequence& scheduled : output.scheduled) {
    ActiveRequest& request = AsActive(scheduled.sequence);
    if (request.status != scheduler::SequenceStatus::kRunning || !request.evicts()) continue;
    const int32_t budget = request.applied.policy->budget();
    if (request.num_slots <= budget) continue;
    kernels::EvictionItem item;
    item.policy = *request.applied.policy;
    item.num_slots = request.num_slots;
    item.newest_position = request.newest_position();
    item.blocks = request.blocks.data();
    const bool decoded = request.num_computed_tokens > request.request.prompt_tokens;
    if ((decoded || scheduled.compacts) && request.audit) {
      item.evicted = request.audit->MakeRoom(request.num_slots - budget);
    }
    if (decoded) {
      request.holes.resize(size_t(kv_.geometry().layers) * kv_.geometry().kv_heads);
      item.holes = request.holes.data();
      evict_.push_back(item);
      evicting_.push_back(&request);
    } else if (scheduled.compacts) {
      compact_.push_back(item);
      compacting_.push_back(&request);
    }
  }
  if (!compact_.empty()) backend_.Compact(compact_, kv_);
  if (!evict_.empty()) backend_.Evict(evict_, kv_);
  for (ActiveRequest* request : compacting_) {
    const int32_t before = request->num_slots;
    const int32_t freed = scheduler.Compacted(request);
    on_eviction(*request, before - request->num_slots, freed);
  }
  for (ActiveRequest* request : evicting_) {
    request->has_hole = true;
    scheduler.Evicted(request);
    on_eviction(*request, 1, 0);
  }
}

HeldTokens ModelRunner::Held(const ActiveRequest& request) const {
  HeldTokens held;
  held.layers = kv_.geometry().layers;
  held.kv_heads = kv_.geometry().kv_heads;
  held.count = request.num_slots;
  const int32_t slots = request.num_slots + (request.has_hole ? 1 : 0);
  for (int32_t layer = 0; layer < held.layers; ++layer) {
    for (int32_t head = 0; head < held.kv_heads; ++head) {
      const size_t begin = held.positions.size();
      const int32_t hole = request.has_hole ? request.holes[layer * held.kv_heads + head] : -1;
      for (int32_t slot = 0; slot < slots; ++slot) {
        if (slot == hole) continue;
        const int64_t block = request.blocks[slot / kernels::kBlockSlots];
        held.positions.push_back(
            kv_.Position(layer, head, block * kernels::kBlockSlots + slot % kernels::kBlockSlots));
      }
      std::sort(held.positions.begin() + begin, held.positions.end());
    }
  }
  return held;
}

}  // namespace hydrant::engine
