#include "kernels/cuda/eviction.h"
#include "kernels/cuda/kv_reader.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kDigits = 256;  // of the radix selection

__device__ uint64_t RankOf(const KvView& kv, int head, const DeviceItem& item,
                           const int32_t* blocks, int32_t slot) {
  enum : uint64_t { kPassedByWindow, kCandidate, kProtected };
  const int64_t at = EntryOf(kv, head, PhysicalSlot(blocks + item.blocks, slot));
  const int32_t position = kv.positions[at];
  uint64_t rank = kCandidate;
  uint32_t score = 0;
  if (kv.window > 0 && position <= item.newest_position + 1 - kv.window) {
    rank = kPassedByWindow;
  } else if (position < item.policy.sink || position > item.newest_position - item.policy.recent) {
    rank = kProtected;
  } else {
    score = __float_as_uint(fmaxf(kv.scores[at], 0.0f));  // of NaN and 0: 0
  }
  return rank << 62 | static_cast<uint64_t>(score) << 31 | static_cast<uint32_t>(position);
}

__global__ void EvictKernel(const KvView* layers, const DeviceItem* items, const int32_t* blocks,
                            int32_t* victims) {
  HYDRANT_SHARED(uint64_t, ranks, kWarps);
  HYDRANT_SHARED(int32_t, slots, kWarps);
  const KvView kv = layers[blockIdx.y];
  const DeviceItem item = items[blockIdx.z];
  const int head = blockIdx.x;
  uint64_t lowest = ~uint64_t{0};
  int32_t victim = 0;
  for (int slot = threadIdx.x; slot < item.num_slots; slot += kThreads) {
    const uint64_t rank = RankOf(kv, head, item, blocks, slot);
    if (rank < lowest) {
      lowest = rank;
      victim = slot;
    }
  }
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    const uint64_t rank = __shfl_xor_sync(kWholeWarp, lowest, lanes);
    const int32_t slot = __shfl_xor_sync(kWholeWarp, victim, lanes);
    if (rank < lowest) {
      lowest = rank;
      victim = slot;
    }
  }
  if (threadIdx.x % kWarpSize == 0) {
    ranks[threadIdx.x / kWarpSize] = lowest;
    slots[threadIdx.x / kWarpSize] = victim;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kWarps; ++warp) {
    if (ranks[warp] < lowest) {
      lowest = ranks[warp];
      victim = slots[warp];
    }
  }
  victims[(static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + head] = victim;
}

// How many threads of the block before this one have set `flag`; *total: how many have in all.
__device__ int CountBefore(bool flag, int* total) {
  HYDRANT_SHARED(int, warps, kWarps);
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  int count = flag ? 1 : 0;
  for (int lanes = 1; lanes < kWarpSize; lanes *= 2) {
    const int before = __shfl_up_sync(kWholeWarp, count, lanes);
    if (lane >= lanes) count += before;
  }
  if (lane == kWarpSize - 1) warps[warp] = count;
  __syncthreads();
  int before = count - (flag ? 1 : 0);
  *total = 0;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += warps[i];
    *total += warps[i];
  }
  __syncthreads();
  return before;
}

// The rank of the last that goes, when `count` go: digit by digit, the highest first, it is where
// the count of lower ranks passes what is left to go.
__device__ uint64_t Threshold(const KvView& kv, int head, const DeviceItem& item,
                              const int32_t* blocks, int count) {
  HYDRANT_SHARED(int, histogram, kDigits);
  HYDRANT_SHARED(int, found, 2);  // the digit, and what is left to go within it
  uint64_t prefix = 0;
  int left = count;
  for (int shift = 56; shift >= 0; shift -= 8) {
    histogram[threadIdx.x] = 0;
    __syncthreads();
    for (int slot = threadIdx.x; slot < item.num_slots; slot += kThreads) {
      const uint64_t rank = RankOf(kv, head, item, blocks, slot);
      if (shift == 56 || rank >> (shift + 8) == prefix) {
        atomicAdd(&histogram[(rank >> shift) % kDigits], 1);
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 0;
      while (left > histogram[digit]) left -= histogram[digit++];
      found[0] = digit;
      found[1] = left;
    }
    __syncthreads();
    prefix = prefix << 8 | static_cast<uint32_t>(found[0]);
    left = found[1];
    __syncthreads();
  }
  return prefix;
}
static_assert(kThreads == kDigits);

__global__ void SelectKernel(KvView kv, const DeviceItem* the_item, const int32_t* blocks,
                             int32_t* lists) {
  const DeviceItem item = *the_item;
  const int head = blockIdx.x;
  const int budget = item.policy.budget();
  const int going = item.num_slots - budget;
  const uint64_t threshold = Threshold(kv, head, item, blocks, going);
  int32_t* const goes = lists + static_cast<int64_t>(head) * item.num_slots;
  int32_t* const stays = goes + going;
  int goes_count = 0, stays_count = 0;
  for (int first = 0; first < item.num_slots; first += kThreads) {
    const int slot = first + threadIdx.x;
    const bool held = slot < item.num_slots;
    const bool out = held && RankOf(kv, head, item, blocks, slot) <= threshold;
    const bool beyond = held && !out && slot >= budget;
    int total;
    const int out_before = CountBefore(out, &total);
    if (out) goes[goes_count + out_before] = slot;
    goes_count += total;
    const int beyond_before = CountBefore(beyond, &total);
    if (beyond) stays[stays_count + beyond_before] = slot;
    stays_count += total;
  }
}

__device__ void CopyRow(uint8_t* to, const uint8_t* from, int bytes) {
  for (int i = threadIdx.x % kWarpSize; i < bytes / 4; i += kWarpSize) {
    reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
  }
}

__device__ void CopySide(const KvSide& side, uint8_t* to, int to_place, const uint8_t* from,
                         int from_place) {
  CopyRow(to + side.rows + to_place * side.row_bytes,
          from + side.rows + from_place * side.row_bytes, side.row_bytes);
  CopyRow(to + side.scales + to_place * side.scale_bytes,
          from + side.scales + from_place * side.scale_bytes, side.scale_bytes);
}

// A warp a slot. As many stay beyond the budget as go within it.
__global__ void MoveKernel(KvView kv, const DeviceItem* the_item, const int32_t* blocks,
                           const int32_t* lists) {
  const DeviceItem item = *the_item;
  const int head = blockIdx.y;
  const int budget = item.policy.budget();
  const int going = item.num_slots - budget;
  const int32_t* const goes = lists + static_cast<int64_t>(head) * item.num_slots;
  const int32_t* const stays = goes + going;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarpSize;
  const int stride = gridDim.x * kWarps;
  for (int i = warp; i < going && goes[i] < budget; i += stride) {
    const int64_t to = PhysicalSlot(blocks + item.blocks, goes[i]);
    const int64_t from = PhysicalSlot(blocks + item.blocks, stays[i]);
    uint8_t* to_block = BlockOf(kv, head, to);
    const uint8_t* from_block = BlockOf(kv, head, from);
    const int to_place = static_cast<int>(to % kBlockSlots);
    const int from_place = static_cast<int>(from % kBlockSlots);
    CopySide(kv.key, to_block, to_place, from_block, from_place);
    CopySide(kv.value, to_block, to_place, from_block, from_place);
    if (threadIdx.x % kWarpSize == 0) {
      kv.scores[EntryOf(kv, head, to)] = kv.scores[EntryOf(kv, head, from)];
      kv.positions[EntryOf(kv, head, to)] = kv.positions[EntryOf(kv, head, from)];
    }
  }
}

}  // namespace

void LaunchEvict(const KvView* layers, int layer_count, int kv_heads, const DeviceItem* items,
                 int count, const int32_t* blocks, int32_t* victims, cudaStream_t stream) {
  HYDRANT_LAUNCH(EvictKernel, dim3(kv_heads, layer_count, count), kThreads, 0, stream, layers,
                 items, blocks, victims);
}

void LaunchSelect(const KvView& kv, const DeviceItem* item, const int32_t* blocks, int32_t* lists,
                  cudaStream_t stream) {
  HYDRANT_LAUNCH(SelectKernel, kv.kv_heads, kThreads, 0, stream, kv, item, blocks, lists);
}

void LaunchMove(const KvView& kv, const DeviceItem* item, const int32_t* blocks,
                const int32_t* lists, cudaStream_t stream) {
  constexpr int kBlocks = 16;
  HYDRANT_LAUNCH(MoveKernel, dim3(kBlocks, kv.kv_heads), kThreads, 0, stream, kv, item, blocks,
                 lists);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
