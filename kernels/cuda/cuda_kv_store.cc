#include "kernels/cuda/cuda_kv_store.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/cuda/store.h"
#include "kernels/group_range.h"
#include "kernels/quantization.h"
#include "kernels/shapes.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

int32_t Padded(int32_t bytes) { return (bytes + 15) / 16 * 16; }

int32_t RowBytes(const KvGeometry& geometry, int bits) {
  if (!KvIsGrouped(geometry.dtype)) return Padded(geometry.head_dim * bits / 8);
  return Padded(KvGroups(geometry.head_dim) * kKvGroupChannels * bits / 8);
}

int32_t ScaleBytes(const KvGeometry& geometry) {
  if (KvIsGrouped(geometry.dtype)) {
    return KvGroups(geometry.head_dim) * static_cast<int32_t>(sizeof(GroupRange));
  }
  return geometry.dtype == KvDType::kInt8 ? sizeof(float) : 0;
}

// All but the pointers and the window.
KvView LayoutOf(const KvGeometry& geometry) {
  KvView view{};
  view.dtype = geometry.dtype;
  view.num_blocks = geometry.num_blocks;
  view.kv_heads = geometry.kv_heads;
  view.head_dim = geometry.head_dim;
  const KvBits bits = KvBitsOf(geometry.dtype);
  int32_t at = 0;
  for (KvSide* side : {&view.key, &view.value}) {
    side->row_bytes = RowBytes(geometry, side == &view.key ? bits.key : bits.value);
    side->scale_bytes = ScaleBytes(geometry);
    side->rows = at;
    side->scales = at + kBlockSlots * side->row_bytes;
    at = side->scales + kBlockSlots * side->scale_bytes;
  }
  view.block_bytes = at;
  view.rotation =
      KvIsGrouped(geometry.dtype) ? static_cast<int32_t>(HadamardBlock(geometry.head_dim)) : 1;
  view.normalise = HadamardNormalise(view.rotation);
  return view;
}

Buffer Owned(void* data, size_t bytes) {
  return Buffer(data, bytes, [](void* memory) { cudaFree(memory); });
}

}  // namespace

size_t BlockBytes(const KvGeometry& geometry) {
  const size_t slot_entries = kBlockSlots * (sizeof(float) + sizeof(int32_t));
  return size_t{1} * geometry.layers * geometry.kv_heads *
         (LayoutOf(geometry).block_bytes + slot_entries);
}

absl::StatusOr<std::unique_ptr<KvStore>> CudaKvStore::Create(const KvGeometry& geometry,
                                                             const Device& device) {
  if (absl::Status status = CheckGeometry(geometry); !status.ok()) return status;
  if (geometry.head_dim > kMaxHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat("head size ", geometry.head_dim,
                                                   ": the CUDA backend takes 1 to ", kMaxHeadDim));
  }
  std::unique_ptr<CudaKvStore> store(new CudaKvStore(geometry, device));
  if (!store->Allocate()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache of ", geometry.num_blocks, " blocks needs ",
                     1.0 * BlockBytes(geometry) * geometry.num_blocks,
                     " bytes of device memory, which are not free"));
  }
  return store;
}

CudaKvStore::CudaKvStore(const KvGeometry& geometry, const Device& device)
    : KvStore(geometry), device_(device), device_slots_(device), device_rows_(device) {}

bool CudaKvStore::Allocate() {
  const KvView layout = LayoutOf(geometry());
  const size_t strips = size_t{1} * geometry().kv_heads * geometry().num_blocks;  // of a layer
  const size_t block_bytes = strips * layout.block_bytes;
  const size_t entries = strips * kBlockSlots;
  const auto allocate = [&](Buffer& buffer, size_t bytes) {
    buffer = Owned(device_.TryAllocate(bytes), bytes);
    return buffer.data() != nullptr;
  };
  if (!allocate(blocks_, block_bytes * geometry().layers) ||
      !allocate(scores_, entries * geometry().layers * sizeof(float)) ||
      !allocate(positions_, entries * geometry().layers * sizeof(int32_t)) ||
      !allocate(device_layers_, geometry().layers * sizeof(KvView))) {
    return false;
  }
  for (int layer = 0; layer < geometry().layers; ++layer) {
    KvView view = layout;
    view.blocks = static_cast<uint8_t*>(blocks_.data()) + layer * block_bytes;
    view.scores = static_cast<float*>(scores_.data()) + layer * entries;
    view.positions = static_cast<int32_t*>(positions_.data()) + layer * entries;
    view.window = geometry().window(layer);
    layers_.push_back(view);
  }
  // Read grows beyond this where more slots are read at once.
  constexpr size_t kSlots = 256;
  device_slots_.Of<int64_t>(kSlots);
  device_rows_.Of<float>(kSlots * (2 * geometry().head_dim + 1));
  device_.CopyIn(device_layers_.data(), layers_.data(), layers_.size() * sizeof(KvView));
  return true;
}

CudaKvStore& CudaKvStore::From(KvStore& kv) {
  auto* store = dynamic_cast<CudaKvStore*>(&kv);
  HYDRANT_CHECK(store != nullptr);
  return *store;
}

// All of it is there from the start.
void CudaKvStore::Prefault(int32_t first, int32_t count) {
  HYDRANT_CHECK(first >= 0 && count >= 0 && first <= geometry().num_blocks - count);
}

int32_t CudaKvStore::Position(int layer, int head, int64_t slot) const {
  int32_t position;
  const int64_t entry = (int64_t{head} * geometry().num_blocks) * kBlockSlots + slot;
  device_.CopyOut(&position, layers_[layer].positions + entry, sizeof(position));
  return position;
}

float CudaKvStore::Score(int layer, int head, int64_t slot) const {
  float score;
  const int64_t entry = (int64_t{head} * geometry().num_blocks) * kBlockSlots + slot;
  device_.CopyOut(&score, layers_[layer].scores + entry, sizeof(score));
  return score;
}

void CudaKvStore::ReadKeyValue(int layer, int head, int64_t slot, float* key, float* value) const {
  const Slots slots = Read(layer, head, {&slot, 1}, value != nullptr);
  std::memcpy(key, slots.keys, geometry().head_dim * sizeof(float));
  if (value != nullptr) std::memcpy(value, slots.values, geometry().head_dim * sizeof(float));
}

CudaKvStore::Slots CudaKvStore::Read(int layer, int head, std::span<const int64_t> slots,
                                     bool values) const {
  const size_t count = slots.size();
  const size_t numbers = count * geometry().head_dim;
  const size_t words = (values ? 2 : 1) * numbers + count;
  auto* const device_slots = device_slots_.Of<int64_t>(count);
  auto* const device_rows = device_rows_.Of<float>(words);
  auto* const positions = reinterpret_cast<int32_t*>(device_rows);
  float* const keys = device_rows + count;
  device_.CopyIn(device_slots, slots.data(), slots.size_bytes());
  LaunchReadSlots(layers_[layer], head, device_slots, static_cast<int>(count), positions, keys,
                  values ? keys + numbers : nullptr, device_.stream());
  auto* const host = static_cast<float*>(rows_.AtLeast(words * sizeof(float)));
  device_.CopyOut(host, device_rows, words * sizeof(float));
  return {reinterpret_cast<const int32_t*>(host), host + count,
          values ? host + count + numbers : nullptr};
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
