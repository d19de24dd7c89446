#include "kernels/cuda/kv_reader.h"
#include "kernels/cuda/store.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int kWarps = 4;

// Rotates the pairs (i, i + half) of head[head_dim] by the lanes of a warp.
__device__ void RotatePairs(const float* angles, int half, float* head) {
  for (int i = threadIdx.x % kWarpSize; i < half; i += kWarpSize) {
    const float cos = angles[i], sin = angles[half + i];
    const float a = head[i], b = head[i + half];
    head[i] = a * cos - b * sin;
    head[i + half] = b * cos + a * sin;
  }
}

// Levels of a group's channels, packed into planes. `row` is rotated and in shared memory.
template <int kBits>
__device__ void StoreLevels(const float* row, int head_dim, uint8_t* to, GroupRange* ranges) {
  constexpr float kMaxLevel = (1 << kBits) - 1;
  const int lane = threadIdx.x % kWarpSize;
  const int groups = KvGroups(head_dim);
  for (int group = 0; group < groups; ++group) {
    const int d = group * kKvGroupChannels + lane;
    // Where a group has fewer than 32 channels, its first stands in for the missing.
    const float value = row[d < head_dim ? d : group * kKvGroupChannels];
    const float largest = WarpMax(value), smallest = -WarpMax(-value);
    const GroupRange range = MakeGroupRange(smallest, largest, kMaxLevel);
    const uint32_t level = d < head_dim ? ToLevel(value, range, kMaxLevel) : 0;
    if (lane == 0) ranges[group] = range;
    uint32_t word = level & 15;
    if constexpr (kBits >= 4) {
      word |= __shfl_xor_sync(kWholeWarp, word, 1) << 4;
      if (lane % 2 == 0) to[d / 2] = static_cast<uint8_t>(word);
    }
    if constexpr (kBits % 4 == 2) {
      uint8_t* pairs = to + (kBits >= 4 ? groups * kKvGroupChannels / 2 : 0);
      uint32_t pair = level >> (kBits >= 4 ? 4 : 0);
      pair |= __shfl_xor_sync(kWholeWarp, pair, 1) << 2;
      pair |= __shfl_xor_sync(kWholeWarp, pair, 2) << 4;
      if (lane % 4 == 0) pairs[d / 4] = static_cast<uint8_t>(pair);
    }
  }
}

// row[head_dim] is this warp's own shared memory.
template <KvDType kDType, bool kKey>
__device__ void StoreSide(const KvView& kv, uint8_t* block, int place, float* row) {
  const KvSide& side = kKey ? kv.key : kv.value;
  const int lane = threadIdx.x % kWarpSize;
  uint8_t* to = block + side.rows + place * side.row_bytes;
  uint8_t* scales = block + side.scales + place * side.scale_bytes;
  if constexpr (kDType == KvDType::kF32) {
    for (int d = lane; d < kv.head_dim; d += kWarpSize) reinterpret_cast<float*>(to)[d] = row[d];
  }
  if constexpr (kDType == KvDType::kBF16) {
    // To the end of the row: attention copies rows as they are.
    for (int d = lane; d < side.row_bytes / 2; d += kWarpSize) {
      reinterpret_cast<uint16_t*>(to)[d] = d < kv.head_dim ? FloatToBF16(row[d]) : 0;
    }
  }
  if constexpr (kDType == KvDType::kInt8) {
    const Int8Scale scale = MakeInt8Scale(WarpAbsMax(row, kv.head_dim));
    for (int d = lane; d < kv.head_dim; d += kWarpSize) {
      reinterpret_cast<int8_t*>(to)[d] = ToInt8(row[d], scale);
    }
    if (lane == 0) *reinterpret_cast<float*>(scales) = scale.scale;
  }
  if constexpr (KvIsGrouped(kDType)) {
    RotateRow(row, kv.head_dim, kv.rotation, kv.normalise);
    StoreLevels<kKey ? KeyBits(kDType) : ValueBits(kDType)>(row, kv.head_dim, to,
                                                            reinterpret_cast<GroupRange*>(scales));
  }
}

// A block takes a row, a warp one head at a time.
template <KvDType kDType>
__global__ void RopeAndStoreKernel(StoreRows store) {
  HYDRANT_SHARED(float, rows, kWarps* kMaxHeadDim);
  const KvView& kv = store.kv;
  const int head_dim = kv.head_dim;
  const int64_t row = blockIdx.x;
  const int lane = threadIdx.x % kWarpSize;
  const int half = store.rotary_dim / 2;
  const float* angles = store.table + row * store.rotary_dim;
  float* qkv = store.qkv + row * (store.heads + 2 * kv.kv_heads) * head_dim;
  const DeviceSequence sequence = store.batch.sequences[store.batch.sequence_of_row[row]];
  float* shared = rows + threadIdx.x / kWarpSize * kMaxHeadDim;

  for (int h = threadIdx.x / kWarpSize; h < store.heads + kv.kv_heads; h += kWarps) {
    float* head = qkv + h * head_dim;
    if (h < store.heads) {
      RotatePairs(angles, half, head);
      continue;
    }
    const int kv_head = h - store.heads;
    const int32_t slot =
        sequence.holes < 0
            ? sequence.num_slots - sequence.num_rows + static_cast<int>(row) - sequence.first_row
            : store.batch.holes[sequence.holes + store.layer * kv.kv_heads + kv_head];
    const int64_t physical = PhysicalSlot(store.batch.blocks + sequence.blocks, slot);
    uint8_t* block = BlockOf(kv, kv_head, physical);
    const int place = static_cast<int>(physical % kBlockSlots);
    for (int d = lane; d < head_dim; d += kWarpSize) shared[d] = head[d];
    __syncwarp(kWholeWarp);
    RotatePairs(angles, half, shared);
    __syncwarp(kWholeWarp);
    StoreSide<kDType, true>(kv, block, place, shared);
    __syncwarp(kWholeWarp);
    for (int d = lane; d < head_dim; d += kWarpSize) shared[d] = head[kv.kv_heads * head_dim + d];
    __syncwarp(kWholeWarp);
    StoreSide<kDType, false>(kv, block, place, shared);
    __syncwarp(kWholeWarp);
    if (lane == 0) {
      kv.scores[EntryOf(kv, kv_head, physical)] = 0.0f;
      kv.positions[EntryOf(kv, kv_head, physical)] = store.batch.positions[row];
    }
  }
}

// A warp a slot.
template <KvDType kDType, bool kKey>
__device__ void ReadSide(const KvView& kv, int head, int64_t slot, float* shared, float* to) {
  const int lane = threadIdx.x % kWarpSize;
  const KvReader<kDType, kKey> reader(kv, StripOf(kv, head),
                                      static_cast<int32_t>(slot / kBlockSlots),
                                      static_cast<int>(slot % kBlockSlots));
  static_assert(kWarpSize * kReadChannels >= kMaxHeadDim);
  if (const int d = lane * kReadChannels; d < kv.head_dim) {
    float numbers[kReadChannels];
    reader.Load(d, numbers);
    const float scale = reader.Scale();
    for (int i = 0; i < min(kReadChannels, kv.head_dim - d); ++i) {
      shared[d + i] = numbers[i] * scale;
    }
  }
  __syncwarp(kWholeWarp);
  if constexpr (KvIsGrouped(kDType)) RotateRow(shared, kv.head_dim, kv.rotation, kv.normalise);
  for (int d = lane; d < kv.head_dim; d += kWarpSize) to[d] = shared[d];
  __syncwarp(kWholeWarp);
}

template <KvDType kDType>
__global__ void ReadSlotsKernel(KvView kv, int head, const int64_t* slots, int32_t* positions,
                                float* keys, float* values) {
  HYDRANT_SHARED(float, row, kMaxHeadDim);
  const int64_t slot = slots[blockIdx.x];
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kv.head_dim;
  if (threadIdx.x == 0) positions[blockIdx.x] = kv.positions[EntryOf(kv, head, slot)];
  ReadSide<kDType, true>(kv, head, slot, row, keys + at);
  if (values != nullptr) ReadSide<kDType, false>(kv, head, slot, row, values + at);
}

}  // namespace

void LaunchRopeAndStore(const StoreRows& store, cudaStream_t stream) {
  if (store.rows == 0) return;
  WithKvDType(store.kv.dtype, [&]<KvDType kDType>() {
    HYDRANT_LAUNCH(RopeAndStoreKernel<kDType>, static_cast<unsigned>(store.rows),
                   kWarps * kWarpSize, 0, stream, store);
  });
}

void LaunchReadSlots(const KvView& kv, int head, const int64_t* slots, int count,
                     int32_t* positions, float* keys, float* values, cudaStream_t stream) {
  if (count == 0) return;
  WithKvDType(kv.dtype, [&]<KvDType kDType>() {
    HYDRANT_LAUNCH(ReadSlotsKernel<kDType>, static_cast<unsigned>(count), kWarpSize, 0, stream, kv,
                   head, slots, positions, keys, values);
  });
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
