// The parts that attention's kernels share: 16 queries of a warp against tiles of 32 slots, on
// tensor cores.
//
// What is multiplied is bf16: with a bf16 cache, queries and weights are rounded to it. With the
// others, results are those of f32: a number is the sum of bf16 numbers, each the rounding of what
// those before it leave, and a product is that of these pieces but for those beyond the bits of
// f32. Queries and weights are three pieces. Of what the cache holds, f32 is three pieces, a number
// of int4 and kivi2 two, and a level of int8 is one: its scale is multiplied with afterwards (keys)
// or with the weight (values).
//
// Tiles lie in shared memory as rows of kPitch bf16 numbers, zeros from the head's last channel to
// kDim: [pieces][rows][kPitch]. With the padding, the eight rows of a matrix
// that LoadMatrices reads lie in different banks.

#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_reader.h"
#include "kernels/cuda/mma.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

// Slots between two looks at a row's largest logit: sums depend on it, so it is the same
// everywhere.
constexpr int kTileSlots = 32;
constexpr int kStep = 16;  // numbers that a multiplication adds up

// Pieces of queries and weights, and of keys and values.
template <KvDType kDType>
constexpr int kPieces = kDType == KvDType::kBF16 ? 1 : 3;
template <KvDType kDType>
constexpr int kStoredPieces = kDType == KvDType::kF32 ? 3
                              : KvIsGrouped(kDType)   ? 2
                                                      : 1;

template <int kDim>
constexpr int kPitch = kDim + 8;

// The pieces of two numbers, the first number low.
template <int kCount>
__device__ void Split(float first, float second, uint32_t (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    to[i] = PackBF16(first, second);
    first -= __uint_as_float(to[i] << 16);
    second -= __uint_as_float(to[i] & 0xffff0000u);
  }
}

// Where a sequence's query of a KV head is found.
struct QueryPlace {
  bool exists;
  int64_t row;  // of the pass
  int head;
};
__device__ inline QueryPlace PlaceOf(const AttentionArgs& args, const DeviceSequence& sequence,
                                     int kv_head, int query) {
  return {query < sequence.num_rows * args.group, sequence.first_row + query / args.group,
          kv_head * args.group + query % args.group};
}

// Queries [first, first + 16) of a sequence by one warp; zeros for those beyond its last. `row` is
// the warp's own, of kDim numbers. Ends with the warp in step.
template <KvDType kDType, int kDim>
__device__ void StageQueries(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                             int first, float* row, uint16_t* to) {
  const int lane = threadIdx.x % kWarpSize;
  const int head_dim = args.kv.head_dim;
  for (int i = 0; i < kWarpQueries; ++i) {
    const auto [exists, qkv_row, head] = PlaceOf(args, sequence, kv_head, first + i);
    const float* from =
        args.qkv + (qkv_row * (args.heads + 2 * args.kv.kv_heads) + head) * head_dim;
    if constexpr (KvIsGrouped(kDType)) {
      for (int d = lane; d < head_dim; d += kWarpSize) row[d] = exists ? from[d] : 0.0f;
      __syncwarp(kWholeWarp);
      RotateRow(row, head_dim, args.kv.rotation, args.kv.normalise);
      from = row;
    }
    for (int d = 2 * lane; d < kDim; d += 2 * kWarpSize) {
      uint32_t pieces[kPieces<kDType>];
      Split(exists && d < head_dim ? from[d] : 0.0f,
            exists && d + 1 < head_dim ? from[d + 1] : 0.0f, pieces);
#pragma unroll
      for (int piece = 0; piece < kPieces<kDType>; ++piece) {
        *reinterpret_cast<uint32_t*>(to + (piece * kWarpQueries + i) * kPitch<kDim> + d) =
            pieces[piece];
      }
    }
    if constexpr (KvIsGrouped(kDType)) __syncwarp(kWholeWarp);
  }
  __syncwarp(kWholeWarp);
}

// What a sequence holds of a KV head.
struct HeldSlots {
  const KvView& kv;
  const int32_t* blocks;
  const uint8_t* strip;
  const int32_t* positions;  // of the strip
  int count;

  __device__ HeldSlots(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head)
      : kv(args.kv),
        blocks(args.batch.blocks + sequence.blocks),
        strip(StripOf(args.kv, kv_head)),
        positions(args.kv.positions + EntryOf(args.kv, kv_head, 0)),
        count(sequence.num_slots) {}
  // Of slots beyond the last, a block that exists.
  __device__ int32_t BlockOf(int slot) const {
    return slot < count ? blocks[slot / kBlockSlots] : 0;
  }
};

// Keys or values of slots [first, first + kSlots), `first` the start of a cache block, by a block
// of kThreads; zeros beyond the last slot held. They are there after CopyAsyncWait and a barrier.
template <KvDType kDType, int kDim, bool kKey, int kSlots, int kThreads>
__device__ void StageSlots(const HeldSlots& held, int first, uint16_t* to) {
  constexpr int kRuns = kDim / kReadChannels;                               // of a slot
  constexpr int kRounds = (kBlockSlots * kRuns + kThreads - 1) / kThreads;  // of a cache block
  // More takes registers, of which there are few left with large heads.
  constexpr bool kLarge = kDim == kMaxHeadDim && KvIsGrouped(kDType);
  constexpr int kAtOnce = kLarge ? 1 : kStoredPieces<kDType> == 1 ? 4 : 2;
  [[maybe_unused]] constexpr int kUnrolled = kDType == KvDType::kBF16 ? kRounds : kAtOnce;
  const int head_dim = held.kv.head_dim;
  for (int begin = 0; begin < kSlots; begin += kBlockSlots) {
    const int32_t block = held.BlockOf(first + begin);
#pragma unroll kUnrolled
    for (int round = 0; round < kRounds; ++round) {
      const unsigned i = threadIdx.x + round * kThreads;
      if (kBlockSlots * kRuns % kThreads != 0 && i >= kBlockSlots * kRuns) continue;
      const int place = i / kRuns, d = i % kRuns * kReadChannels;
      const KvReader<kDType, kKey> reader(held.kv, held.strip, block, place);
      const bool exists = first + begin + place < held.count && d < head_dim;
      uint16_t* const at = to + (begin + place) * kPitch<kDim> + d;
      if constexpr (kDType == KvDType::kBF16) {
        CopyAsync16(at, reader.row + 2 * d, exists);
      } else {
        float numbers[kReadChannels] = {};
        if (exists) reader.Load(d, numbers);
        uint32_t words[kReadChannels / 2][kStoredPieces<kDType>];
#pragma unroll
        for (int j = 0; j < kReadChannels; j += 2) {
          Split(d + j < head_dim ? numbers[j] : 0.0f, d + j + 1 < head_dim ? numbers[j + 1] : 0.0f,
                words[j / 2]);
        }
#pragma unroll
        for (int piece = 0; piece < kStoredPieces<kDType>; ++piece) {
          *reinterpret_cast<uint4*>(at + piece * kSlots * kPitch<kDim>) = {
              words[0][piece], words[1][piece], words[2][piece], words[3][piece]};
        }
      }
    }
  }
}

// A word of each of the same slots, of which words_of(block) has those of a cache block; zeros
// beyond the last slot held.
template <int kSlots, int kThreads, typename WordsOf>
__device__ void StageWords(const HeldSlots& held, int first, void* to, const WordsOf& words_of) {
  constexpr unsigned kRun = 4;
  static_assert(kSlots <= kRun * kThreads);
  const unsigned i = kRun * threadIdx.x;
  if (i >= kSlots) return;
  const int slot = first + static_cast<int>(i);
  CopyAsync16(static_cast<uint32_t*>(to) + i, words_of(held.BlockOf(slot)) + i % kBlockSlots,
              slot < held.count);
}

// What goes with a tile of keys or values: a position (of keys) and a scale (of int8) for each
// slot.
template <int kSlots>
struct SlotWords {
  int32_t positions[kSlots];
  float scales[kSlots];
};

// A tile with what goes with it; see StageSlots.
template <KvDType kDType, int kDim, bool kKey, int kSlots, int kThreads>
__device__ void StageTile(const HeldSlots& held, int first, uint16_t* to,
                          SlotWords<kSlots>* words) {
  StageSlots<kDType, kDim, kKey, kSlots, kThreads>(held, first, to);
  if constexpr (kKey) {
    StageWords<kSlots, kThreads>(held, first, words->positions, [&](int32_t block) {
      return held.positions + static_cast<int64_t>(block) * kBlockSlots;
    });
  }
  if constexpr (kDType == KvDType::kInt8) {
    StageWords<kSlots, kThreads>(held, first, words->scales, [&](int32_t block) {
      const KvReader<kDType, kKey> reader(held.kv, held.strip, block, 0);
      return reinterpret_cast<const float*>(reader.scales);
    });
  }
}

// Where a lane points LoadMatrices in a tile of 16 rows by 16 channels: its matrices are rows 0 to
// 7 and 8 to 15 of the first 8 channels, then of the last; or, by channels, first those of rows 0
// to 7.
template <int kDim>
__device__ int ByRows() {
  const int lane = threadIdx.x % kWarpSize;
  return lane % 16 * kPitch<kDim> + lane / 16 * 8;
}
template <int kDim>
__device__ int ByChannels() {
  const int lane = threadIdx.x % kWarpSize;
  return (lane / 16 * 8 + lane % 8) * kPitch<kDim> + lane / 8 % 2 * 8;
}

// Adds a times what lies at `b` to two tiles of 8 columns: products of the largest pieces to c, the
// others to `small`. `plane` is the distance of b's pieces.
template <int kCount, int kStored, bool kTransposed>
__device__ void Multiply(const uint32_t (&a)[kCount][4], const uint16_t* b, int plane,
                         float (&c)[2][4], float (&small)[2][4]) {
#pragma unroll
  for (int j = 0; j < kStored; ++j) {
    uint32_t words[4];
    LoadMatrices<kTransposed>(words, b + j * plane);
#pragma unroll
    for (int i = 0; i < kCount - j; ++i) {
      float(&to)[2][4] = i + j == 0 ? c : small;
      Mma(to[0], a[i], words);
      Mma(to[1], a[i], words + 2);
    }
  }
}

// The queries that StageQueries has staged, 16 channels at a time. Where registers suffice they are
// read once.
template <KvDType kDType, int kDim>
class Queries {
 public:
  static constexpr bool kHeld = kPieces<kDType> == 1 && kDim <= 128;

  __device__ explicit Queries(const uint16_t* rows) : at_(rows + ByRows<kDim>()) {
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < kDim / kStep; ++k) LoadMatrices<false>(held_[k], at_ + k * kStep);
    }
  }
  __device__ void Get(int k, uint32_t (&a)[kPieces<kDType>][4]) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[0][i] = held_[k][i];
    } else {
#pragma unroll
      for (int piece = 0; piece < kPieces<kDType>; ++piece) {
        LoadMatrices<false>(a[piece], at_ + piece * kWarpQueries * kPitch<kDim> + k * kStep);
      }
    }
  }

 private:
  const uint16_t* at_;
  uint32_t held_[kHeld ? kDim / kStep : 1][4];
};

// The two queries, lane / 4 and that + 8 of its warp's 16, of which a lane has logits and outputs.
__device__ inline int OwnQuery(int first, int i) {
  return first + static_cast<int>(threadIdx.x) % kWarpSize / 4 + 8 * i;
}
// Their positions, -1 for queries that do not exist.
struct OwnPositions {
  int32_t at[2];

  __device__ OwnPositions(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                          int first) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const QueryPlace place = PlaceOf(args, sequence, kv_head, OwnQuery(first, i));
      at[i] = place.exists ? args.batch.positions[place.row] : -1;
    }
  }
};

// The slot of a tile, and which of the lane's two queries, that element i of its c for columns
// [8 n, 8 n + 8) belongs to.
__device__ inline int TileSlot(int n, int i) {
  return 8 * n + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}
__device__ inline int QueryOf(int i) { return i / 2; }

// Logits in base 2 of a warp's 16 queries for the tile of slots [first, first + 32); -infinity
// where the query does not see the key. All of the queries see slots before `seen` unless there is
// a window, none sees those from `end` on. `plane` is the distance of the keys' pieces.
template <KvDType kDType, int kDim>
__device__ void Logits(const AttentionArgs& args, const Queries<kDType, kDim>& queries,
                       const OwnPositions& own, const uint16_t* keys, int plane,
                       const int32_t* positions, const float* scales, int first, int seen, int end,
                       float (&logits)[kTileSlots / 8][4]) {
  constexpr int kHalves = kTileSlots / kStep;
  [[maybe_unused]] constexpr int kUnrolled = Queries<kDType, kDim>::kHeld ? kDim / kStep : 2;
  float sums[kHalves][2][4] = {}, small[kHalves][2][4] = {};
  const uint16_t* const at = keys + ByChannels<kDim>();
#pragma unroll kUnrolled
  for (int k = 0; k < kDim / kStep; ++k) {
    uint32_t a[kPieces<kDType>][4];
    queries.Get(k, a);
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      Multiply<kPieces<kDType>, kStoredPieces<kDType>, false>(
          a, at + half * kStep * kPitch<kDim> + k * kStep, plane, sums[half], small[half]);
    }
  }
#pragma unroll
  for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float dot = sums[n / 2][n % 2][i];
      if constexpr (kPieces<kDType> != 1) dot += small[n / 2][n % 2][i];
      if constexpr (kDType == KvDType::kInt8) dot *= scales[TileSlot(n, i)];
      logits[n][i] = dot * args.scale;
    }
  }
  const int32_t window = args.kv.window;
  if (window == 0 && first + kTileSlots <= seen) return;
#pragma unroll
  for (int n = 0; n < kTileSlots / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = TileSlot(n, i);
      const int32_t position = positions[slot];
      const int32_t own_position = own.at[QueryOf(i)];
      if (first + slot >= end || position > own_position ||
          (window != 0 && position <= own_position - window)) {
        logits[n][i] = -INFINITY;
      }
    }
  }
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_
