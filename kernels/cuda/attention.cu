#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

// The logits and then the weights of a tile, a row a query.
constexpr int kWeightPitch = kBlockSlots + 1;
// On a multiprocessor, at least. Left to itself ptxas spills for the sake of more.
constexpr int kAttendBlocks = 4;

// Weights of this thread's query for the slots of a tile, from their logits, and their sum with the
// values in `tile`.
template <KvDType kDType, int kDim>
__device__ void AddTile(float* weights, const float* tile, int head_dim,
                        WeightedSum<kDim / kThreadsPerQuery>& part) {
  const int own = threadIdx.x % kThreadsPerQuery;
  float largest = -INFINITY;
  for (int key = 0; key < kBlockSlots; ++key) largest = fmaxf(largest, weights[key]);
  __syncwarp(kWholeWarp);
  const bool any = largest != -INFINITY;
  if (any) {
    if (const float exponent = ceilf(largest); exponent > part.exponent) part.Rescale(exponent);
    for (int key = own; key < kBlockSlots; key += kThreadsPerQuery) {
      weights[key] = exp2f(weights[key] - part.exponent);
    }
  }
  __syncwarp(kWholeWarp);
  if (!any) return;
  for (int key = 0; key < kBlockSlots; ++key) {
    const float weight = weights[key];
    if (weight == 0.0f) continue;  // the value may be anything
    part.sum += weight;
    const float multiplied = AsStored<kDType>(weight);
#pragma unroll
    for (int i = 0; i < kDim / kThreadsPerQuery; ++i) {
      const int d = own + i * kThreadsPerQuery;
      if (d < head_dim) {
        part.values[i] = fmaf(multiplied, tile[key * kPitch<kDim> + d], part.values[i]);
      }
    }
  }
}

// A block attends for a tile of queries to the parts z, z + gridDim.z, ... of its sequence's slots.
// In decode (kDecode) it writes each part, else the outputs.
template <KvDType kDType, int kDim, bool kDecode>
__global__ void __launch_bounds__(kAttentionThreads, kAttendBlocks)
    AttendKernel(AttentionArgs args, int first_tile) {
  HYDRANT_SHARED(float, queries, kTileQueries* kPitch<kDim>);
  HYDRANT_SHARED(float, slots, kBlockSlots* kPitch<kDim>);
  HYDRANT_SHARED(float, weights, kTileQueries* kWeightPitch);
  HYDRANT_SHARED(int32_t, query_positions, kTileQueries);
  HYDRANT_SHARED(int32_t, key_positions, kBlockSlots);
  const QueryTile at = args.batch.tiles[first_tile + blockIdx.x];
  const DeviceSequence sequence = args.batch.sequences[at.sequence];
  const int kv_head = blockIdx.y;
  const int head_dim = args.kv.head_dim;
  const int query = threadIdx.x / kThreadsPerQuery, own = threadIdx.x % kThreadsPerQuery;
  const int own_query = at.first_query + query;
  const bool exists = own_query < sequence.num_rows * args.group;
  const int64_t row = sequence.first_row + own_query / args.group;
  const int head = kv_head * args.group + own_query % args.group;
  float* own_weights = weights + query * kWeightPitch;

  // Later slots hold later positions where a sequence has several rows.
  const int last_row = min(sequence.num_rows - 1, (at.first_query + kTileQueries - 1) / args.group);
  const int end = sequence.num_slots - sequence.num_rows + last_row + 1;
  LoadQueries<kDType, kDim>(args, sequence, kv_head, at.first_query, queries, query_positions);

  WeightedSum<kDim / kThreadsPerQuery> total;
  for (int split = blockIdx.z; split * kSplitSlots < end; split += gridDim.z) {
    WeightedSum<kDim / kThreadsPerQuery> part;
    const int64_t scratch =
        (static_cast<int64_t>(sequence.first_split) + split) * args.heads + head;
    const int split_end = min(end, (split + 1) * kSplitSlots);
    for (int first = split * kSplitSlots; first < split_end; first += kBlockSlots) {
      LoadSlots<kDType, kDim, true>(args, sequence, kv_head, first, slots);
      LoadPositions(args, sequence, kv_head, first, key_positions);
      __syncthreads();
      for (int key = own; key < kBlockSlots; key += kThreadsPerQuery) {
        const float logit =
            Logit<kDim>(args, queries, slots, query, key, query_positions, key_positions);
        own_weights[key] = logit;
        if (kDecode && exists && sequence.keep_scores != 0) {
          args.logits[scratch * kSplitSlots + first % kSplitSlots + key] = logit;
        }
      }
      __syncthreads();
      LoadSlots<kDType, kDim, false>(args, sequence, kv_head, first, slots);
      __syncthreads();
      AddTile<kDType, kDim>(own_weights, slots, head_dim, part);
      __syncthreads();
    }
    if constexpr (kDecode) {
      if (!exists) continue;
      float* to = args.parts + scratch * (head_dim + 2);
      if (own == 0) {
        to[0] = part.exponent;
        to[1] = part.sum;
      }
#pragma unroll
      for (int i = 0; i < kDim / kThreadsPerQuery; ++i) {
        const int d = own + i * kThreadsPerQuery;
        if (d < head_dim) to[2 + d] = part.values[i];
      }
    } else {
      total.Add(part);
    }
  }
  if constexpr (!kDecode) {
    __syncthreads();  // the queries are no longer needed
#pragma unroll
    for (int i = 0; i < kDim / kThreadsPerQuery; ++i) {
      const int d = own + i * kThreadsPerQuery;
      if (d < head_dim) queries[query * kPitch<kDim> + d] = total.values[i] / total.sum;
    }
    if (own == 0 && exists) {
      args.sums[(row * args.heads + head) * 2] = total.exponent;
      args.sums[(row * args.heads + head) * 2 + 1] = total.sum;
    }
    __syncthreads();
    for (int i = threadIdx.x / kWarpSize; i < kTileQueries; i += kAttentionWarps) {
      float* result = queries + i * kPitch<kDim>;
      if constexpr (KvIsGrouped(kDType)) {
        RotateRow(result, head_dim, args.kv.rotation, args.kv.normalise);
      }
      const int q = at.first_query + i;
      if (q >= sequence.num_rows * args.group) continue;
      float* to =
          args.out + ((sequence.first_row + q / args.group) * static_cast<int64_t>(args.heads) +
                      kv_head * args.group + q % args.group) *
                         head_dim;
      for (int d = threadIdx.x % kWarpSize; d < head_dim; d += kWarpSize) to[d] = result[d];
    }
  }
}

// Adds up the parts of a sequence's one row for the heads of a KV head; then the scores.
template <bool kRotated>
__global__ void __launch_bounds__(kAttentionThreads)
    CombineKernel(AttentionArgs args, int first_single) {
  HYDRANT_SHARED(float, result, kMaxHeadDim);
  constexpr int kChannels = kMaxHeadDim / kAttentionThreads;
  const DeviceSequence sequence =
      args.batch.sequences[args.batch.singles[first_single + blockIdx.x]];
  const int kv_head = blockIdx.y;
  const int head_dim = args.kv.head_dim;
  const int splits = SplitsOf(sequence.num_slots);
  const int64_t row = sequence.first_row;
  for (int head = kv_head * args.group; head < (kv_head + 1) * args.group; ++head) {
    WeightedSum<kChannels> total;
    for (int split = 0; split < splits; ++split) {
      const float* from =
          args.parts + ((static_cast<int64_t>(sequence.first_split) + split) * args.heads + head) *
                           (head_dim + 2);
      WeightedSum<kChannels> part;
      part.exponent = from[0];
      part.sum = from[1];
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const int d = threadIdx.x + i * kAttentionThreads;
        part.values[i] = d < head_dim ? from[2 + d] : 0.0f;
      }
      total.Add(part);
    }
    if (threadIdx.x == 0) {
      args.sums[(row * args.heads + head) * 2] = total.exponent;
      args.sums[(row * args.heads + head) * 2 + 1] = total.sum;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int d = threadIdx.x + i * kAttentionThreads;
      if (d < head_dim) result[d] = total.values[i] / total.sum;
    }
    __syncthreads();
    if (kRotated && threadIdx.x < kWarpSize) {
      RotateRow(result, head_dim, args.kv.rotation, args.kv.normalise);
    }
    __syncthreads();
    float* to = args.out + (row * args.heads + head) * head_dim;
    for (int d = threadIdx.x; d < head_dim; d += kAttentionThreads) to[d] = result[d];
    __syncthreads();
  }
  if (sequence.keep_scores == 0) return;
  for (int slot = threadIdx.x; slot < sequence.num_slots; slot += kAttentionThreads) {
    const int64_t split = static_cast<int64_t>(sequence.first_split) + slot / kSplitSlots;
    float share = 0.0f;
    for (int head = kv_head * args.group; head < (kv_head + 1) * args.group; ++head) {
      const float* sums = args.sums + (row * args.heads + head) * 2;
      const float logit =
          args.logits[(split * args.heads + head) * kSplitSlots + slot % kSplitSlots];
      share += Share(exp2f(logit - sums[0]), sums[1], 1.0f / sums[1]);
    }
    args.kv.scores[EntryOf(args.kv, kv_head,
                           PhysicalSlot(args.batch.blocks + sequence.blocks, slot))] += share;
  }
}

// A block keeps the keys of 16 slots and goes through the rows that see them, in order.
template <KvDType kDType, int kDim>
__global__ void __launch_bounds__(kAttentionThreads) ScoreKernel(AttentionArgs args) {
  HYDRANT_SHARED(float, queries, kTileQueries* kPitch<kDim>);
  HYDRANT_SHARED(float, keys, kBlockSlots* kPitch<kDim>);
  HYDRANT_SHARED(float, shares, kTileQueries* kWeightPitch);
  HYDRANT_SHARED(int32_t, query_positions, kTileQueries);
  HYDRANT_SHARED(int32_t, key_positions, kBlockSlots);
  const DeviceSequence sequence = args.batch.sequences[args.batch.scored_prefills[blockIdx.z]];
  const int kv_head = blockIdx.y;
  const int first = blockIdx.x * kBlockSlots;
  if (first >= sequence.num_slots) return;
  const int query = threadIdx.x / kThreadsPerQuery, own = threadIdx.x % kThreadsPerQuery;
  LoadSlots<kDType, kDim, true>(args, sequence, kv_head, first, keys);
  LoadPositions(args, sequence, kv_head, first, key_positions);

  const int held_before = sequence.num_slots - sequence.num_rows;
  const int queries_end = sequence.num_rows * args.group;
  const int slot = first + static_cast<int>(threadIdx.x);  // of the first 16 threads
  const bool scores = threadIdx.x < kBlockSlots && slot < sequence.num_slots;
  float* score = nullptr;
  float sum = 0.0f, share = 0.0f;
  if (scores) {
    score = args.kv.scores +
            EntryOf(args.kv, kv_head, PhysicalSlot(args.batch.blocks + sequence.blocks, slot));
    sum = *score;
  }
  for (int q = max(0, first - held_before) * args.group; q < queries_end; q += kTileQueries) {
    __syncthreads();
    LoadQueries<kDType, kDim>(args, sequence, kv_head, q, queries, query_positions);
    __syncthreads();
    if (q + query < queries_end) {
      const int64_t row = sequence.first_row + (q + query) / args.group;
      const int head = kv_head * args.group + (q + query) % args.group;
      const float* sums = args.sums + (row * args.heads + head) * 2;
      const float exponent = sums[0], total = sums[1], inverse = 1.0f / total;
      for (int key = own; key < kBlockSlots; key += kThreadsPerQuery) {
        const float logit =
            Logit<kDim>(args, queries, keys, query, key, query_positions, key_positions);
        shares[query * kWeightPitch + key] = Share(exp2f(logit - exponent), total, inverse);
      }
    }
    __syncthreads();
    if (!scores) continue;
    for (int i = 0; i < kTileQueries && q + i < queries_end; ++i) {
      share += shares[i * kWeightPitch + threadIdx.x];
      if ((q + i) % args.group < args.group - 1) continue;
      sum += share;
      share = 0.0f;
    }
  }
  if (scores) *score = sum;
}

// Calls launch with the smallest head size that has room.
template <typename Launch>
void WithDim(int head_dim, const Launch& launch) {
  if (head_dim <= 64) return launch.template operator()<64>();
  if (head_dim <= 128) return launch.template operator()<128>();
  return launch.template operator()<kMaxHeadDim>();
}

}  // namespace

void LaunchDecode(const AttentionArgs& args, int first_tile, int tiles, int first_single,
                  int singles, int max_splits, cudaStream_t stream) {
  const dim3 grid(tiles, args.kv.kv_heads, max_splits);
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim, [&]<int kDim>() {
      HYDRANT_LAUNCH((AttendKernel<kDType, kDim, true>), grid, kAttentionThreads, 0, stream, args,
                     first_tile);
    });
    HYDRANT_LAUNCH(CombineKernel<KvIsGrouped(kDType)>, dim3(singles, args.kv.kv_heads),
                   kAttentionThreads, 0, stream, args, first_single);
  });
}

void LaunchPrefill(const AttentionArgs& args, int first_tile, int tiles, cudaStream_t stream) {
  const dim3 grid(tiles, args.kv.kv_heads);
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim, [&]<int kDim>() {
      HYDRANT_LAUNCH((AttendKernel<kDType, kDim, false>), grid, kAttentionThreads, 0, stream, args,
                     first_tile);
    });
  });
}

void LaunchPrefillScores(const AttentionArgs& args, int sequences, int max_slots,
                         cudaStream_t stream) {
  const dim3 grid((max_slots + kBlockSlots - 1) / kBlockSlots, args.kv.kv_heads, sequences);
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim, [&]<int kDim>() {
      HYDRANT_LAUNCH((ScoreKernel<kDType, kDim>), grid, kAttentionThreads, 0, stream, args);
    });
  });
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
