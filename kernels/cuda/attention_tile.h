// The parts that attention's kernels share: 16 queries against the 16 slots of a cache block, by a
// block of kAttentionThreads. Thread t works for query t / 8, so that a query's eight threads are
// of one warp.

#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_reader.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {

constexpr int kAttentionThreads = 128;
constexpr int kAttentionWarps = kAttentionThreads / kWarpSize;
constexpr int kThreadsPerQuery = kAttentionThreads / kTileQueries;
constexpr int kNowhere = 0x7fffffff;  // the position of a slot that is not held

// 2^n for a whole number n <= 0; 0 below the normal numbers.
__device__ inline float PowerOf2(float n) {
  return n < -126.0f ? 0.0f
                     : __uint_as_float(static_cast<uint32_t>(static_cast<int>(n) + 127) << 23);
}

// weight / sum, rounded once: 1 where they are equal. inverse = 1 / sum.
__device__ inline float Share(float weight, float sum, float inverse) {
  const float quotient = weight * inverse;
  return fmaf(fmaf(-quotient, sum, weight), inverse, quotient);
}

// What is multiplied with a stored number.
template <KvDType kDType>
__device__ float AsStored(float value) {
  return kDType == KvDType::kBF16 ? RoundToBF16(value) : value;
}

// Rows of shared memory are padded so that a column lies in different banks.
template <int kDim>
constexpr int kPitch = kDim + 1;

// The four sums keep their order wherever this is computed. Rows are padded with zeros to 4.
__device__ inline float Dot(const float* a, const float* b, int padded_dim) {
  float sums[4] = {};
  for (int d = 0; d < padded_dim; d += 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = fmaf(a[d + i], b[d + i], sums[i]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__device__ inline bool Sees(int32_t query_position, int32_t key_position, int32_t window) {
  return key_position <= query_position && (window == 0 || key_position > query_position - window);
}

// Queries [first, first + 16) of a sequence, ready to be multiplied; -1 as the position of those
// beyond its last. The caller synchronises.
template <KvDType kDType, int kDim>
__device__ void LoadQueries(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                            int first, float* queries, int32_t* positions) {
  const int lane = threadIdx.x % kWarpSize;
  const int head_dim = args.kv.head_dim;
  for (int i = threadIdx.x / kWarpSize; i < kTileQueries; i += kAttentionWarps) {
    const int query = first + i;
    const bool exists = query < sequence.num_rows * args.group;
    const int row = sequence.first_row + query / args.group;
    const int head = kv_head * args.group + query % args.group;
    const float* from =
        args.qkv +
        (static_cast<int64_t>(row) * (args.heads + 2 * args.kv.kv_heads) + head) * head_dim;
    float* to = queries + i * kPitch<kDim>;
    for (int d = lane; d < (head_dim + 3) / 4 * 4; d += kWarpSize) {
      to[d] = exists && d < head_dim ? AsStored<kDType>(from[d]) : 0.0f;
    }
    if (lane == 0) positions[i] = exists ? args.batch.positions[row] : -1;
    __syncwarp(kWholeWarp);
    if constexpr (KvIsGrouped(kDType)) {
      RotateRow(to, head_dim, args.kv.rotation, args.kv.normalise);
    }
  }
}

// Keys or values of slots [first, first + 16); zeros beyond the last slot held. The caller
// synchronises.
template <KvDType kDType, int kDim, bool kKey>
__device__ void LoadSlots(const AttentionArgs& args, const DeviceSequence& sequence, int kv_head,
                          int first, float* tile) {
  const int lane = threadIdx.x % kWarpSize;
  const int head_dim = args.kv.head_dim;
  const int64_t block = args.batch.blocks[sequence.blocks + first / kBlockSlots];
  for (int i = threadIdx.x / kWarpSize; i < kBlockSlots; i += kAttentionWarps) {
    const KvReader<kDType, kKey> reader(args.kv, kv_head, block * kBlockSlots + i);
    const bool held = first + i < sequence.num_slots;
    for (int d = lane; d < (head_dim + 3) / 4 * 4; d += kWarpSize) {
      tile[i * kPitch<kDim> + d] = held && d < head_dim ? reader[d] : 0.0f;
    }
  }
}

__device__ inline void LoadPositions(const AttentionArgs& args, const DeviceSequence& sequence,
                                     int kv_head, int first, int32_t* positions) {
  const int i = threadIdx.x;
  if (i >= kBlockSlots) return;
  const int64_t block = args.batch.blocks[sequence.blocks + first / kBlockSlots];
  positions[i] = first + i < sequence.num_slots
                     ? args.kv.positions[EntryOf(args.kv, kv_head, block * kBlockSlots + i)]
                     : kNowhere;
}

// In base 2; -infinity where the query does not see the key.
template <int kDim>
__device__ float Logit(const AttentionArgs& args, const float* queries, const float* keys,
                       int query, int key, const int32_t* query_positions,
                       const int32_t* key_positions) {
  if (!Sees(query_positions[query], key_positions[key], args.kv.window)) return -INFINITY;
  return Dot(queries + query * kPitch<kDim>, keys + key * kPitch<kDim>,
             (args.kv.head_dim + 3) / 4 * 4) *
         args.scale;
}

// The sum of 2^-exponent times the weights, and of the weighted values in a thread's channels
// t % 8, t % 8 + 8, ...; an exponent of -infinity: of nothing.
template <int kChannels>
struct WeightedSum {
  float exponent = -INFINITY;
  float sum = 0.0f;
  float values[kChannels] = {};

  __device__ void Rescale(float to_exponent) {
    const float factor = exponent == -INFINITY ? 0.0f : PowerOf2(exponent - to_exponent);
    exponent = to_exponent;
    sum *= factor;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) values[i] *= factor;
  }
  __device__ void Add(const WeightedSum& other) {
    if (other.exponent == -INFINITY) return;
    if (other.exponent > exponent) Rescale(other.exponent);
    const float factor = PowerOf2(other.exponent - exponent);
    sum += other.sum * factor;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) values[i] += other.values[i] * factor;
  }
};

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_TILE_H_
