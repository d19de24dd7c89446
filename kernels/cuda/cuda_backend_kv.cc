// Attention, eviction and compaction of the CUDA backend: what goes over the KV cache.

#include <algorithm>
#include <cstring>
#include <numbers>

#include "kernels/check.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/eviction.h"
#include "kernels/evicted_store.h"
#include "kernels/recall.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

void CudaBackend::Attention(const Batch& batch, const AttentionShape& shape, int layer, Matrix qkv,
                            KvStore& kv, Matrix out) {
  CudaKvStore& store = CudaKvStore::From(kv);
  HYDRANT_CHECK(layer >= 0 && layer < kv.geometry().layers);
  HYDRANT_CHECK(qkv.rows == batch.num_rows() && qkv.rows <= max_rows_);
  HYDRANT_CHECK(qkv.cols == (int64_t{shape.heads} + 2 * shape.kv_heads) * shape.head_dim);
  HYDRANT_CHECK(out.rows == qkv.rows && out.cols == int64_t{shape.heads} * shape.head_dim);
  const PassPlan& plan = planner_.Plan(batch, shape, kv.geometry(), max_splits_);
  const AttentionArgs args{.batch = plan.batch,
                           .kv = store.layer(layer),
                           .qkv = qkv.f32(),
                           .out = out.f32(),
                           .heads = shape.heads,
                           .group = shape.heads / shape.kv_heads,
                           .scale = shape.scale * std::numbers::log2e_v<float>,
                           .sums = sums_.Of<float>(0),
                           .parts = parts_.Of<float>(0),
                           .logits = logits_.Of<float>(0)};
  for (const PassPlan::Decode& d : plan.decodes) {
    LaunchDecode(args, d.first_tile, d.tiles, d.first_single, d.singles, d.max_splits, stream());
  }
  if (plan.prefill_tiles > 0) {
    LaunchPrefill(args, plan.first_prefill_tile, plan.prefill_tiles, stream());
  }
  if (plan.scored_prefills > 0) {
    LaunchPrefillScores(args, plan.scored_prefills, plan.scored_max_slots, stream());
  }
  for (const BatchSequence& sequence : batch.sequences) {
    if (sequence.audit == nullptr) continue;
    Audit(sequence, batch.positions[sequence.first_row], shape, layer, qkv, kv.geometry());
  }
}

// Evicted keys lie in host memory, so what is not attended to is summed up there.
void CudaBackend::Audit(const BatchSequence& sequence, int32_t position,
                        const AttentionShape& shape, int layer, Matrix qkv, const KvGeometry& kv) {
  const int64_t row = sequence.first_row;
  device_->CopyOut(query_.data(), qkv.f32() + row * qkv.cols,
                   size_t{1} * shape.heads * shape.head_dim * sizeof(float));
  device_->CopyOut(sums_of_row_.data(), sums_.Of<float>(0) + row * shape.heads * 2,
                   size_t{2} * shape.heads * sizeof(float));
  for (int h = 0; h < shape.heads; ++h) {
    const ExpSum held{sums_of_row_[2 * h] * std::numbers::ln2_v<float>, sums_of_row_[2 * h + 1]};
    const int strip = layer * shape.kv_heads + h / (shape.heads / shape.kv_heads);
    const ExpSum evicted =
        SumEvicted(*sequence.audit, strip, shape.head_dim, position, kv.window(layer), shape.scale,
                   query_.data() + h * shape.head_dim, evicted_key_.data());
    sequence.audit->recall[layer * shape.heads + h] = RecallOf(held, evicted);
  }
}

CudaBackend::SentItems CudaBackend::Send(std::span<const EvictionItem> items) {
  const size_t items_bytes = items.size() * sizeof(DeviceItem);
  item_bytes_.resize(items_bytes);
  for (size_t i = 0; i < items.size(); ++i) {
    const EvictionItem& item = items[i];
    HYDRANT_CHECK(item.policy.sink >= 0 && item.policy.heavy >= 0 && item.policy.recent >= 1);
    HYDRANT_CHECK(item.num_slots <= max_slots_);
    const size_t blocks = (item.num_slots + kBlockSlots - 1) / kBlockSlots;
    const size_t at = item_bytes_.size();
    const DeviceItem device_item{item.policy, item.num_slots, item.newest_position,
                                 static_cast<int32_t>((at - items_bytes) / sizeof(int32_t))};
    item_bytes_.resize(at + blocks * sizeof(int32_t));
    std::memcpy(item_bytes_.data() + at, item.blocks, blocks * sizeof(int32_t));
    std::memcpy(item_bytes_.data() + i * sizeof(DeviceItem), &device_item, sizeof(device_item));
  }
  std::memcpy(items_.Prepare(item_bytes_.size()), item_bytes_.data(), item_bytes_.size());
  auto* const device = item_words_.Of<uint8_t>(item_bytes_.size());
  items_.Send(device, item_bytes_.size());
  return {device, reinterpret_cast<const int32_t*>(device + items_bytes)};
}

void CudaBackend::Evict(std::span<const EvictionItem> items, KvStore& kv) {
  if (items.empty()) return;
  CudaKvStore& store = CudaKvStore::From(kv);
  const KvGeometry& geometry = kv.geometry();
  for (const EvictionItem& item : items) HYDRANT_CHECK(item.num_slots == item.policy.budget() + 1);
  const SentItems sent = Send(items);
  const size_t heads = size_t{1} * geometry.layers * geometry.kv_heads;
  auto* const victims = victims_.Of<int32_t>(items.size() * heads);
  LaunchEvict(store.device_layers(), geometry.layers, geometry.kv_heads,
              static_cast<const DeviceItem*>(sent.items), static_cast<int>(items.size()),
              sent.blocks, victims, stream());
  host_victims_.resize(items.size() * heads);
  device_->CopyOut(host_victims_.data(), victims, host_victims_.size() * sizeof(int32_t));
  for (size_t i = 0; i < items.size(); ++i) {
    std::copy_n(host_victims_.begin() + i * heads, heads, items[i].holes);
    if (items[i].evicted == nullptr) continue;
    for (int layer = 0; layer < geometry.layers; ++layer) {
      for (int head = 0; head < geometry.kv_heads; ++head) {
        const int32_t victim = items[i].holes[layer * geometry.kv_heads + head];
        HandOver(items[i], layer, head, 0, victim, kv, evicted_key_.data());
      }
    }
  }
}

void CudaBackend::Compact(std::span<const EvictionItem> items, KvStore& kv) {
  if (items.empty()) return;
  CudaKvStore& store = CudaKvStore::From(kv);
  const SentItems sent = Send(items);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].num_slots > items[i].policy.budget()) CompactOne(items[i], sent, i, store);
  }
}

void CudaBackend::CompactOne(const EvictionItem& item, const SentItems& sent, size_t index,
                             CudaKvStore& store) {
  auto* const lists = lists_.Of<int32_t>(0);
  const DeviceItem* const device_item = static_cast<const DeviceItem*>(sent.items) + index;
  for (int layer = 0; layer < store.geometry().layers; ++layer) {
    LaunchSelect(store.layer(layer), device_item, sent.blocks, lists, stream());
    if (item.evicted != nullptr) HandOverAll(item, layer, lists, store);
    LaunchMove(store.layer(layer), device_item, sent.blocks, lists, stream());
  }
}

void CudaBackend::HandOverAll(const EvictionItem& item, int layer, const int32_t* lists,
                              CudaKvStore& store) {
  const KvGeometry& geometry = store.geometry();
  const int32_t going = item.num_slots - item.policy.budget();
  device_->CopyOut(host_list_.data(), lists,
                   size_t{1} * geometry.kv_heads * item.num_slots * sizeof(int32_t));
  const bool values = item.evicted->takes_values();
  for (int head = 0; head < geometry.kv_heads; ++head) {
    const int32_t* const goes = host_list_.data() + size_t{1} * head * item.num_slots;
    for (int32_t i = 0; i < going; ++i) physical_slots_[i] = PhysicalSlot(item.blocks, goes[i]);
    const CudaKvStore::Slots slots =
        store.Read(layer, head, {physical_slots_.data(), static_cast<size_t>(going)}, values);
    for (int32_t i = 0; i < going; ++i) {
      const size_t at = size_t{1} * i * geometry.head_dim;
      item.evicted->Take(layer, head, i, slots.positions[i], slots.keys + at,
                         values ? slots.values + at : nullptr);
    }
  }
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
