#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/weighted_sum.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

// How a block's shared memory lies.
template <KvDType kDType, int kDim, bool kDecode>
struct Layout {
  static constexpr int kWarps = kDecode ? 1 : PrefillWarps(kDType, kDim);
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kQueries = kWarps * kWarpQueries;
  // On a multiprocessor, at least. Left to itself ptxas spills for the sake of more.
  static constexpr int kBlocks = kDecode ? 8 : 8 / kWarps;
  // Tiles of keys and values, in turns. Those of bf16 come by themselves, as many at a time as
  // there is room for; the others are converted.
  static constexpr bool kAsync = kDType == KvDType::kBF16;
  static constexpr int kBuffers = !kAsync ? 2 : kDecode ? 4 : 3;
  static constexpr int kQueryNumbers = kPieces<kDType> * kWarpQueries * kPitch<kDim>;  // of a warp
  static constexpr int kPlane = kTileSlots * kPitch<kDim>;
  static constexpr int kBufferNumbers = kStoredPieces<kDType> * kPlane;
  // Pairs of numbers that neighbours in a column of a tile write lie in different banks, and there
  // is room for the sum of weights.
  static constexpr int kResultPitch = kDim + 8;

  static constexpr int kQueryBytes = kWarps * kQueryNumbers * 2;
  static constexpr int kResultBytes = kDecode ? 0 : kQueries * kResultPitch * 4;
  // Results may lie where the queries did once these are in registers.
  static constexpr int kResults = Queries<kDType, kDim>::kHeld ? 0 : kQueryBytes;
  static constexpr int kTiles =
      kResults + kResultBytes > kQueryBytes ? kResults + kResultBytes : kQueryBytes;
  static constexpr int kWords = kTiles + kBuffers * kBufferNumbers * 2;
  static constexpr int kRows = kWords + kBuffers * static_cast<int>(sizeof(SlotWords<kTileSlots>));
  static constexpr int kBytes = kRows + (KvIsGrouped(kDType) ? kWarps * kDim * 4 : 0);
};

// The outputs of a lane's two queries, before they are divided by the sums of weights: elements of
// tiles of 8 channels, in pairs of tiles.
template <int kDim>
struct Outputs {
  float at[kDim / kStep][2][4] = {};
};

// Weights in place of logits, and what they change of the sums so far.
template <int kDim>
__device__ void AddWeights(float (&weights)[kTileSlots / 8][4], SumOfWeights (&part)[2],
                           Outputs<kDim>& outputs) {
  float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      largest[QueryOf(i)] = fmaxf(largest[QueryOf(i)], weights[n][i]);
    }
  }
  QuadReduce(largest, [](float a, float b) { return fmaxf(a, b); });
  float bases[2], factors[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    factors[i] = part[i].RaiseTo(ceilf(largest[i]));
    bases[i] = part[i].exponent == -INFINITY ? 0.0f : part[i].exponent;
  }
  if (factors[0] != 1.0f || factors[1] != 1.0f) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) outputs.at[n / 2][n % 2][i] *= factors[QueryOf(i)];
    }
  }
#pragma unroll
  for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[n][i] = Exp2(weights[n][i] - bases[QueryOf(i)]);
      part[QueryOf(i)].sum += weights[n][i];
    }
  }
}

// int8: what the levels of a tile's values are multiplied with.
__device__ inline void ScaleWeights(const float* scales, float (&weights)[kTileSlots / 8][4]) {
#pragma unroll
  for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[n][i] *= scales[TileSlot(n, i)];
  }
}

// Adds a tile's values, each times its weight.
template <KvDType kDType, int kDim>
__device__ void AddValues(const float (&weights)[kTileSlots / 8][4], const uint16_t* values,
                          int plane, Outputs<kDim>& outputs) {
  constexpr int kCount = kPieces<kDType>;
  const uint16_t* const at = values + ByRows<kDim>();
#pragma unroll
  for (int half = 0; half < kTileSlots / kStep; ++half) {
    // What a lane has of the logits' tiles is what it must have of the weights'.
    uint32_t a[kCount][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = weights[2 * half + i / 2];
      uint32_t pieces[kCount];
      Split(pair[i % 2 * 2], pair[i % 2 * 2 + 1], pieces);
#pragma unroll
      for (int piece = 0; piece < kCount; ++piece) a[piece][i] = pieces[piece];
    }
#pragma unroll
    for (int n = 0; n < kDim / kStep; ++n) {
      Multiply<kCount, kStoredPieces<kDType>, true>(a, at + half * kStep * kPitch<kDim> + n * kStep,
                                                    plane, outputs.at[n], outputs.at[n]);
    }
  }
}

// Where decode keeps a split of a head.
__device__ inline int64_t ScratchOf(const AttentionArgs& args, const DeviceSequence& sequence,
                                    int slot, int head) {
  return (static_cast<int64_t>(sequence.first_split) + slot / kSplitSlots) * args.heads + head;
}

// Keeps the logits of the tile of slots that begins at `first_slot`.
__device__ inline void KeepLogits(const AttentionArgs& args, const DeviceSequence& sequence,
                                  int kv_head, int first_query, int first_slot,
                                  const float (&logits)[kTileSlots / 8][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const QueryPlace place = PlaceOf(args, sequence, kv_head, OwnQuery(first_query, i));
    if (!place.exists) continue;
    float* const to = args.logits +
                      ScratchOf(args, sequence, first_slot, place.head) * kSplitSlots +
                      first_slot % kSplitSlots;
#pragma unroll
    for (int n = 0; n < kTileSlots / 8; ++n) {
      to[TileSlot(n, 0)] = logits[n][2 * i];
      to[TileSlot(n, 1)] = logits[n][2 * i + 1];
    }
  }
}

// Calls with(d, value) for each output of query i of a lane's two.
template <int kDim, typename With>
__device__ void ForEachOutput(Outputs<kDim>& outputs, int i, int head_dim, const With& with) {
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int d = TileSlot(n, j);
      if (d < head_dim) with(d, outputs.at[n / 2][n % 2][2 * i + j]);
    }
  }
}

// Writes what decode has attended to in the split of `slot`.
template <int kDim>
__device__ void WritePart(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                          int first_query, int slot, const SumOfWeights (&part)[2],
                          Outputs<kDim>& outputs) {
  const int head_dim = args.kv.head_dim;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const QueryPlace place = PlaceOf(args, sequence, kv_head, OwnQuery(first_query, i));
    if (!place.exists) continue;
    float* const to = args.parts + ScratchOf(args, sequence, slot, place.head) * (head_dim + 2);
    if (threadIdx.x % 4 == 0) {
      to[0] = part[i].exponent;
      to[1] = part[i].sum;
    }
    ForEachOutput(outputs, i, head_dim, [&](int d, float value) { to[2 + d] = value; });
  }
}

// Adds what a prompt has attended to in a split to the warp's results. A row's sum of weights lies
// behind its kDim values.
template <int kDim>
__device__ void AddPart(const SumOfWeights (&part)[2], int head_dim, bool first,
                        Outputs<kDim>& outputs, float* results, int pitch) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float* const result = results + OwnQuery(0, i) * pitch;
    SumOfWeights total;
    if (!first) total = {result[kDim], result[kDim + 1]};
    const Factors factors = total.Add(part[i]);
    __syncwarp(kWholeWarp);
    if (threadIdx.x % 4 == 0) {
      result[kDim] = total.exponent;
      result[kDim + 1] = total.sum;
    }
    ForEachOutput(outputs, i, head_dim, [&](int d, float value) {
      result[d] = (first ? 0.0f : result[d]) * factors.own + value * factors.added;
    });
  }
}

// Divides a warp's results by the sums of weights, and writes both.
template <KvDType kDType, int kDim>
__device__ void WriteResults(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                             int first_query, float* results, int pitch) {
  const int lane = threadIdx.x % kWarpSize, head_dim = args.kv.head_dim;
  __syncwarp(kWholeWarp);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float* const result = results + OwnQuery(0, i) * pitch;
    const float sum = result[kDim + 1];
    for (int d = lane % 4; d < head_dim; d += 4) result[d] /= sum;
    const QueryPlace place = PlaceOf(args, sequence, kv_head, OwnQuery(first_query, i));
    if (!place.exists || lane % 4 != 0) continue;
    float* const sums = args.sums + (place.row * args.heads + place.head) * 2;
    sums[0] = result[kDim];
    sums[1] = sum;
  }
  __syncwarp(kWholeWarp);
  for (int i = 0; i < kWarpQueries; ++i) {
    const QueryPlace place = PlaceOf(args, sequence, kv_head, first_query + i);
    if (!place.exists) return;
    float* const result = results + i * pitch;
    if constexpr (KvIsGrouped(kDType)) {
      RotateRow(result, head_dim, args.kv.rotation, args.kv.normalise);
    }
    float* const to = args.out + (place.row * args.heads + place.head) * head_dim;
    for (int d = lane; d < head_dim; d += kWarpSize) to[d] = result[d];
  }
}

// A block attends for a tile of queries, 16 a warp, to its sequence's slots; in decode (kDecode) to
// split blockIdx.z of them, of which it writes the part, else to all, and it writes the outputs.
template <KvDType kDType, int kDim, bool kDecode>
__global__ void __launch_bounds__(Layout<kDType, kDim, kDecode>::kThreads,
                                  Layout<kDType, kDim, kDecode>::kBlocks)
    AttendKernel(AttentionArgs args, int first_tile) {
  using Shared = Layout<kDType, kDim, kDecode>;
  constexpr int kThreads = Shared::kThreads, kBuffers = Shared::kBuffers;
  HYDRANT_DYNAMIC_SHARED(uint8_t, memory);
  const QueryTile at = args.batch.tiles[first_tile + blockIdx.x];
  const DeviceSequence sequence = args.batch.sequences[at.sequence];
  const int kv_head = blockIdx.y;
  const int head_dim = args.kv.head_dim;
  const int warp = threadIdx.x / kWarpSize;
  const int num_queries = sequence.num_rows * args.group;
  const int first_query = at.first_query + warp * kWarpQueries;
  // Later slots hold later positions where a sequence has several rows.
  const int held_before = sequence.num_slots - sequence.num_rows;
  const auto end_of = [&](int queries_end) {
    return held_before + (min(queries_end, num_queries) - 1) / args.group + 1;
  };
  const int begin = kDecode ? blockIdx.z * kSplitSlots : 0;
  int end = end_of(at.first_query + Shared::kQueries);
  if constexpr (kDecode) end = min(end, begin + kSplitSlots);
  if (begin >= end) return;
  const int own_end = first_query < num_queries ? end_of(first_query + kWarpQueries) : 0;
  const int seen = end_of(first_query + 1);  // by all of the warp's queries

  auto* const own_queries = reinterpret_cast<uint16_t*>(memory) + warp * Shared::kQueryNumbers;
  auto* const tiles = reinterpret_cast<uint16_t*>(memory + Shared::kTiles);
  auto* const words = reinterpret_cast<SlotWords<kTileSlots>*>(memory + Shared::kWords);
  float* const results = reinterpret_cast<float*>(memory + Shared::kResults) +
                         warp * kWarpQueries * Shared::kResultPitch;
  float* const row = reinterpret_cast<float*>(memory + Shared::kRows) + warp * kDim;

  const HeldSlots held(args, sequence, kv_head);
  // Step 2 t brings the keys of tile t, step 2 t + 1 its values.
  const int steps = 2 * ((end - begin + kTileSlots - 1) / kTileSlots);
  const auto stage = [&](int step) {
    if (step < steps) {
      const int buffer = step % kBuffers, first = begin + step / 2 * kTileSlots;
      uint16_t* const to = tiles + buffer * Shared::kBufferNumbers;
      const auto bring = [&]<bool kKey>() {
        StageTile<kDType, kDim, kKey, kTileSlots, kThreads>(held, first, to, words + buffer);
      };
      if (step % 2 == 0) {
        bring.template operator()<true>();
      } else {
        bring.template operator()<false>();
      }
    }
    CopyAsyncCommit();
  };
  // Waits for a step's tile. Tiles of bf16 come while others are worked on: one is let come whose
  // place the step before has left. The others are converted, keys and values together.
  const auto arrive = [&](int step) {
    if constexpr (Shared::kAsync) {
      CopyAsyncWait<kBuffers - 2>();
      __syncthreads();
      stage(step + kBuffers - 1);
    } else if (step % 2 == 0) {
      __syncthreads();
      stage(step);
      stage(step + 1);
      CopyAsyncWait<0>();
      __syncthreads();
    }
    return tiles + step % kBuffers * Shared::kBufferNumbers;
  };
  if constexpr (Shared::kAsync) {
    for (int step = 0; step < kBuffers - 1; ++step) stage(step);
  }
  StageQueries<kDType, kDim>(args, sequence, kv_head, first_query, row, own_queries);
  const Queries<kDType, kDim> queries(own_queries);
  const OwnPositions positions(args, sequence, kv_head, first_query);

  SumOfWeights part[2];
  Outputs<kDim> outputs;
  for (int step = 0; step < steps; step += 2) {
    const int first = begin + step / 2 * kTileSlots;
    float weights[kTileSlots / 8][4];
    const uint16_t* const keys = arrive(step);
    if (first < own_end) {
      const SlotWords<kTileSlots>& key_words = words[step % kBuffers];
      Logits(args, queries, positions, keys, Shared::kPlane, key_words.positions, key_words.scales,
             first, seen, own_end, weights);
      if (kDecode && sequence.keep_scores != 0) {
        KeepLogits(args, sequence, kv_head, first_query, first, weights);
      }
      AddWeights(weights, part, outputs);
    }
    const uint16_t* const values = arrive(step + 1);
    if (first >= own_end) continue;
    if constexpr (kDType == KvDType::kInt8) {
      ScaleWeights(words[(step + 1) % kBuffers].scales, weights);
    }
    AddValues<kDType>(weights, values, Shared::kPlane, outputs);
    const int next = first + kTileSlots;
    if (next % kSplitSlots != 0 && next < own_end) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sums[1] = {part[i].sum};
      QuadReduce(sums, [](float a, float b) { return a + b; });
      part[i].sum = sums[0];
    }
    if constexpr (kDecode) {
      WritePart(args, sequence, kv_head, first_query, first, part, outputs);
    } else {
      AddPart(part, head_dim, first < kSplitSlots, outputs, results, Shared::kResultPitch);
#pragma unroll
      for (int i = 0; i < 2; ++i) part[i] = {};
      outputs = {};
    }
  }
  if constexpr (!kDecode) {
    if (first_query < num_queries) {
      WriteResults<kDType, kDim>(args, sequence, kv_head, first_query, results,
                                 Shared::kResultPitch);
    }
  }
}

template <KvDType kDType, int kDim, bool kDecode>
void LaunchAttend(const AttentionArgs& args, dim3 grid, int first_tile, cudaStream_t stream) {
  using Shared = Layout<kDType, kDim, kDecode>;
  HYDRANT_CUDA_CHECK(cudaFuncSetAttribute(AttendKernel<kDType, kDim, kDecode>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          Shared::kBytes));
  HYDRANT_LAUNCH((AttendKernel<kDType, kDim, kDecode>), grid, Shared::kThreads, Shared::kBytes,
                 stream, args, first_tile);
}

}  // namespace

void LaunchDecode(const AttentionArgs& args, int first_tile, int tiles, int first_single,
                  int singles, int max_splits, cudaStream_t stream) {
  const dim3 grid(tiles, args.kv.kv_heads, max_splits);
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim,
            [&]<int kDim>() { LaunchAttend<kDType, kDim, true>(args, grid, first_tile, stream); });
  });
  LaunchCombine(args, first_single, singles, stream);
}

void LaunchPrefill(const AttentionArgs& args, int first_tile, int tiles, cudaStream_t stream) {
  const dim3 grid(tiles, args.kv.kv_heads);
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim,
            [&]<int kDim>() { LaunchAttend<kDType, kDim, false>(args, grid, first_tile, stream); });
  });
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
