#include "engine/audit.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "kernels/batch.h"
#include "kernels/check.h"

namespace hydrant::engine {
namespace {

constexpr std::align_val_t kAlignment{64};

int64_t BlocksFor(int64_t tokens) {
  return (tokens + kernels::kBlockSlots - 1) / kernels::kBlockSlots;
}

}  // namespace

int64_t AuditShape::block_bytes() const {
  return int64_t{layers} * kv_heads * static_cast<int64_t>(kernels::EvictedStripBytes(head_dim));
}

bool AuditMemory::Take(int64_t bytes) {
  if (bytes > limit_ - used_) return false;
  used_ += bytes;
  return true;
}

void Audit::FreeBlock::operator()(uint8_t* block) const { operator delete[](block, kAlignment); }

Audit::Audit(const AuditShape& shape, AuditMemory& memory)
    : shape_(shape),
      memory_(memory),
      recall_(size_t(shape.layers) * shape.heads),
      layer_sums_(shape.layers) {}

kernels::EvictedStore* Audit::MakeRoom(int32_t tokens) {
  if (released_) return nullptr;
  const int64_t block_bytes = shape_.block_bytes();
  const auto blocks = static_cast<size_t>(BlocksFor(int64_t{count_} + tokens));
  while (blocks_.size() < blocks) {
    if (!memory_.Take(block_bytes)) {
      ended_early_ = true;
      Release();
      return nullptr;
    }
    blocks_.emplace_back(static_cast<uint8_t*>(operator new[](block_bytes, kAlignment)));
    block_pointers_.push_back(blocks_.back().get());
  }
  first_taken_ = count_;
  count_ += tokens;
  return this;
}

void Audit::Take(int layer, int head, int32_t index, int32_t position, const float* key,
                 const float*) {
  const int32_t row = first_taken_ + index;
  HYDRANT_CHECK(row < count_);
  const size_t strip = size_t(layer) * shape_.kv_heads + head;
  kernels::WriteEvictedKey(blocks_[row / kernels::kBlockSlots].get() +
                               strip * kernels::EvictedStripBytes(shape_.head_dim),
                           shape_.head_dim, row % kernels::kBlockSlots, key, position);
}

const kernels::RecallAudit* Audit::BeginStep(int32_t held) {
  if (count_ == 0 || released_) return nullptr;
  held_read_ += held;
  if (steps_ > 0 && 2 * (evicted_read_ + count_) > held_read_) return nullptr;
  evicted_read_ += count_;
  in_audited_step_ = true;
  step_ = {block_pointers_.data(), count_, recall_.data()};
  return &step_;
}

void Audit::EndStep() {
  if (!in_audited_step_) return;
  in_audited_step_ = false;
  ++steps_;
  for (int32_t layer = 0; layer < shape_.layers; ++layer) {
    double sum = 0;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const float measured = recall_[layer * shape_.heads + head];
      // A model that overflows gives no number; such a head is as good as blind.
      const double recall = measured >= 0 ? measured : 0.0;
      sum += recall;
      ++histogram_[static_cast<int>(recall * (kBins - 1))];
    }
    layer_sums_[layer] += sum / shape_.heads;
  }
}

void Audit::Release() {
  released_ = true;
  if (blocks_.empty()) return;
  memory_.Return(static_cast<int64_t>(blocks_.size()) * shape_.block_bytes());
  blocks_.clear();
  block_pointers_.clear();
}

Recall Audit::Result() const {
  Recall result;
  result.steps = steps_;
  result.complete = !ended_early_;
  if (steps_ == 0) {
    // Nothing was evicted before an attention that could have missed it, or all that is known is
    // that something was.
    result.mean = result.p5 = ended_early_ ? 0 : 1;
    result.layer_means.assign(shape_.layers, result.mean);
    return result;
  }
  for (const double sum : layer_sums_) result.layer_means.push_back(sum / steps_);
  result.mean =
      std::accumulate(result.layer_means.begin(), result.layer_means.end(), 0.0) / shape_.layers;
  // The least that 5 % of the measurements do not exceed.
  const int64_t measured = int64_t{steps_} * shape_.layers * shape_.heads;
  int64_t below = 0;
  int bin = 0;
  while ((below += histogram_[bin]) * 20 < measured) ++bin;
  result.p5 = static_cast<double>(bin) / (kBins - 1);
  return result;
}

bool IsSampledForAudit(int64_t arrival, double rate) {
  // splitmix64: neighbours in time are as unrelated as any.
  uint64_t z = (static_cast<uint64_t>(arrival) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53 < rate;
}

}  // namespace hydrant::engine
