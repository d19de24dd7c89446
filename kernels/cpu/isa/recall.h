// The attention that evicted keys would have received (kernels/recall.h). Their values do not
// matter, so scores are summed as they come, in groups of a few blocks: per lane a running maximum
// and the sum of the exponentials in relation to it (Milakov and Gimelshein 2018).
// A row's additions have one order, whatever else is in the strip.

#ifndef HYDRANT_KERNELS_CPU_ISA_RECALL_H_
#define HYDRANT_KERNELS_CPU_ISA_RECALL_H_

#include "kernels/cpu/isa/attention.h"
#include "kernels/cpu/isa/exp.h"
#include "kernels/cpu/isa/lanes.h"

namespace hydrant::kernels::cpu::HYDRANT_ISA {

template <int kRows>
static __attribute__((noinline)) void SumEvictedRows(const StripArgs& args,
                                                     const EvictedArgs& evicted, float* largest,
                                                     float* total) {
  constexpr int kBlocks = BF16Kv::kKeyBlocks;
  const int64_t padded = PadHeadDim(args.head_dim);
  const int64_t pairs = (args.head_dim + 1) / 2;
  const int64_t pair_bytes = kSlots * 4;
  const int64_t blocks = (int64_t{evicted.count} + kSlots - 1) / kSlots;
  auto* queries = reinterpret_cast<NarrowF*>(args.query_scratch);
  PrepareQueries<BF16Kv>(args, padded, queries);
  const F16 scale = SetF(args.scale);
  // Above minus infinity, so that a difference of masked scores is a number.
  F16 most[kRows], sum[kRows];
  HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
    most[r] = SetF(-3e38f);
    sum[r] = ZeroF();
  }
  for (int64_t b = 0; b < blocks; b += kBlocks) {
    const uint8_t* keys[kBlocks];
    const uint8_t* ahead[kBlocks];
    F16 score[kRows][kBlocks];
    HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
      const int64_t block = b + j < blocks ? b + j : blocks - 1;
      const int64_t next = block + kBlocks < blocks ? block + kBlocks : blocks - 1;
      keys[j] = evicted.blocks[block] + evicted.offset;
      ahead[j] = evicted.blocks[next] + evicted.offset;
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) score[r][j] = ZeroF();
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
      BF16Pairs key[kBlocks];
      HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
        key[j] = LoadPairs(keys[j] + pair * pair_bytes);
        __builtin_prefetch(ahead[j] + pair * pair_bytes);
      }
      HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto query = BroadcastPair(queries + r * padded + pair * 2);
        HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
          score[r][j] = DotPairs(key[j], query, score[r][j]);
        }
      }
    }
    const bool whole = (b + kBlocks) * kSlots <= evicted.count && !evicted.windowed;
    HYDRANT_UNROLL for (int r = 0; r < kRows; ++r) {
      F16 peak = most[r];
      HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) {
        F16 s = score[r][j] * scale;
        if (!whole) {
          const auto first = static_cast<int32_t>((b + j) * kSlots);
          I16 visible = (LaneIndex() + SetI(first)) < SetI(evicted.count);
          if (evicted.windowed) {
            const I16 positions = LoadI(keys[j] + pairs * pair_bytes);
            visible = visible & (positions > SetI(args.first_visible[r] - 1));
          }
          s = Select(visible, s, SetF(-__builtin_inff()));
        }
        score[r][j] = s;
        peak = Max(s, peak);
      }
      F16 grown = sum[r] * Exp(most[r] - peak);
      HYDRANT_UNROLL for (int j = 0; j < kBlocks; ++j) grown = grown + Exp(score[r][j] - peak);
      sum[r] = grown;
      most[r] = peak;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    largest[r] = ReduceMax(most[r]);
    total[r] = ReduceAdd(sum[r] * Exp(most[r] - SetF(largest[r])));
  }
}

template <int kRows = kStripRows>
static void SumEvictedUpTo(const StripArgs& args, const EvictedArgs& evicted, float* largest,
                           float* sum) {
  if (args.count == kRows) {
    SumEvictedRows<kRows>(args, evicted, largest, sum);
  } else if constexpr (kRows > 1) {
    SumEvictedUpTo<kRows - 1>(args, evicted, largest, sum);
  }
}

static void SumEvicted(const StripArgs& args, const EvictedArgs& evicted, float* largest,
                       float* sum) {
  // A strip that was attended to otherwise may be higher.
  for (int first = 0; first < args.count; first += kStripRows) {
    StripArgs part = args;
    part.count = args.count - first < kStripRows ? args.count - first : kStripRows;
    for (int r = 0; r < part.count; ++r) {
      part.query[r] = args.query[first + r];
      part.first_visible[r] = args.first_visible[first + r];
    }
    SumEvictedUpTo(part, evicted, largest + first, sum + first);
  }
}

}  // namespace hydrant::kernels::cpu::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ISA_RECALL_H_
