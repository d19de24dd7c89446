#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/weighted_sum.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

// How a block's shared memory lies.
template <KvDType kDType, int kDim>
struct Layout {
  static constexpr int kWarps = PrefillWarps(kDType, kDim);
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kQueries = kWarps * kWarpQueries;
  // The more, the less often are queries brought. A thread adds up for one.
  static constexpr int kSlots = kStoredPieces<kDType> == 1 || kWarps == 1 ? kThreads : kThreads / 2;
  static constexpr int kSharePitch = kSlots + 1;
  static constexpr int kQueryNumbers = kPieces<kDType> * kWarpQueries * kPitch<kDim>;  // of a warp
  static constexpr int kKeyPlane = kSlots * kPitch<kDim>;

  static constexpr int kKeys = kWarps * kQueryNumbers * 2;
  static constexpr int kWords = kKeys + kStoredPieces<kDType> * kKeyPlane * 2;
  static constexpr int kRows = kWords + static_cast<int>(sizeof(SlotWords<kSlots>));
  static constexpr int kShares = kRows + (KvIsGrouped(kDType) ? kWarps * kDim * 4 : 0);
  static constexpr int kBytes = kShares + kQueries * kSharePitch * 4;
};

// A block keeps the keys of some slots and goes through the rows that see them, in order: a warp
// computes what 16 queries give to each slot, then a thread adds up what a slot is given.
template <KvDType kDType, int kDim>
__global__ void __launch_bounds__(Layout<kDType, kDim>::kThreads, 2)
    ScoreKernel(AttentionArgs args) {
  using Shared = Layout<kDType, kDim>;
  constexpr int kSlots = Shared::kSlots, kThreads = Shared::kThreads;
  HYDRANT_DYNAMIC_SHARED(uint8_t, memory);
  auto* const keys = reinterpret_cast<uint16_t*>(memory + Shared::kKeys);
  auto* const words = reinterpret_cast<SlotWords<kSlots>*>(memory + Shared::kWords);
  auto* const shares = reinterpret_cast<float*>(memory + Shared::kShares);
  const DeviceSequence sequence = args.batch.sequences[args.batch.scored_prefills[blockIdx.z]];
  const int kv_head = blockIdx.y;
  const int first = blockIdx.x * kSlots;
  if (first >= sequence.num_slots) return;
  const int warp = threadIdx.x / kWarpSize;
  auto* const queries = reinterpret_cast<uint16_t*>(memory) + warp * Shared::kQueryNumbers;
  float* const row = reinterpret_cast<float*>(memory + Shared::kRows) + warp * kDim;
  float* const own_shares = shares + warp * kWarpQueries * Shared::kSharePitch;
  StageTile<kDType, kDim, true, kSlots, kThreads>(HeldSlots(args, sequence, kv_head), first, keys,
                                                  words);
  CopyAsyncCommit();
  CopyAsyncWait<0>();
  __syncthreads();

  const int held_before = sequence.num_slots - sequence.num_rows;
  const int num_queries = sequence.num_rows * args.group;
  const int slot = first + static_cast<int>(threadIdx.x);
  static_assert(kSlots <= kThreads);
  const bool scores = threadIdx.x < kSlots && slot < sequence.num_slots;
  float* score = nullptr;
  float sum = 0.0f, share = 0.0f;
  if (scores) {
    score = args.kv.scores +
            EntryOf(args.kv, kv_head, PhysicalSlot(args.batch.blocks + sequence.blocks, slot));
    sum = *score;
  }
  for (int q = max(0, first - held_before) * args.group; q < num_queries; q += Shared::kQueries) {
    const int first_query = q + warp * kWarpQueries;
    if (first_query < num_queries) {
      StageQueries<kDType, kDim>(args, sequence, kv_head, first_query, row, queries);
      const Queries<kDType, kDim> staged(queries);
      const OwnPositions own(args, sequence, kv_head, first_query);
      const int seen = held_before + first_query / args.group + 1;
      float exponents[2], sums[2], inverses[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto [exists, pass_row, head] =
            PlaceOf(args, sequence, kv_head, OwnQuery(first_query, i));
        const float* from = args.sums + (pass_row * args.heads + head) * 2;
        exponents[i] = exists ? from[0] : 0.0f;
        sums[i] = exists ? from[1] : 1.0f;
        inverses[i] = 1.0f / sums[i];
      }
      for (int tile = 0; tile < kSlots && first + tile < sequence.num_slots; tile += kTileSlots) {
        float logits[kTileSlots / 8][4];
        Logits(args, staged, own, keys + tile * kPitch<kDim>, Shared::kKeyPlane,
               words->positions + tile, words->scales + tile, first + tile, seen,
               sequence.num_slots, logits);
#pragma unroll
        for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int query = QueryOf(i);
            own_shares[OwnQuery(0, query) * Shared::kSharePitch + tile + TileSlot(n, i)] =
                Share(Exp2(logits[n][i] - exponents[query]), sums[query], inverses[query]);
          }
        }
      }
    }
    __syncthreads();
    if (scores) {
      for (int i = 0; i < Shared::kQueries && q + i < num_queries; ++i) {
        share += shares[i * Shared::kSharePitch + threadIdx.x];
        if ((q + i) % args.group < args.group - 1) continue;
        sum += share;
        share = 0.0f;
      }
    }
    __syncthreads();
  }
  if (scores) *score = sum;
}

}  // namespace

void LaunchPrefillScores(const AttentionArgs& args, int sequences, int max_slots,
                         cudaStream_t stream) {
  WithKvDType(args.kv.dtype, [&]<KvDType kDType>() {
    WithDim(args.kv.head_dim, [&]<int kDim>() {
      using Shared = Layout<kDType, kDim>;
      HYDRANT_CUDA_CHECK(cudaFuncSetAttribute(
          ScoreKernel<kDType, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shared::kBytes));
      const dim3 grid((max_slots + Shared::kSlots - 1) / Shared::kSlots, args.kv.kv_heads,
                      sequences);
      HYDRANT_LAUNCH((ScoreKernel<kDType, kDim>), grid, Shared::kThreads, Shared::kBytes, stream,
                     args);
    });
  });
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
