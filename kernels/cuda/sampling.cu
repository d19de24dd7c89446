#include "kernels/cuda/sampling.h"

namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kListed = 4096;  // keys in shared memory

// A token's rank, larger for the better: its logit's bits in the order of numbers, then its id's,
// reversed. 0 for one that cannot be chosen.
__device__ uint64_t KeyOf(float logit, int id) {
  if (!(logit > -INFINITY)) return 0;
  const uint32_t bits = __float_as_uint(logit + 0.0f);  // -0 is 0
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(id);
}
__device__ float LogitOf(uint64_t key) {
  const auto ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered >> 31) != 0 ? ordered & 0x7fffffffu : ~ordered);
}
__device__ int IdOf(uint64_t key) { return static_cast<int>(~static_cast<uint32_t>(key)); }

// Keys of a whole row, and of a list in shared memory.
struct RowKeys {
  const float* logits;
  int count;
  __device__ uint64_t operator[](int i) const { return KeyOf(logits[i], i); }
};
struct ListKeys {
  const uint64_t* keys;
  int count;
  __device__ uint64_t operator[](int i) const { return keys[i]; }
};

// What keys are added up by: one each, or their masses.
struct One {
  __device__ uint64_t operator()(uint64_t) const { return 1; }
};
struct Mass {
  float max, temperature, mass_of_one;
  __device__ float WeightOf(uint64_t key) const {
    return key == 0 ? 0.0f : Weight(LogitOf(key), max, temperature);
  }
  __device__ uint64_t FromWeight(float weight) const {
    return static_cast<uint64_t>(MassOf(weight, mass_of_one));
  }
  __device__ uint64_t operator()(uint64_t key) const { return FromWeight(WeightOf(key)); }
};

__device__ uint64_t WarpSum(uint64_t value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, lanes);
  }
  return value;
}
__device__ uint64_t WarpMax(uint64_t value) {
  for (int lanes = kWarpSize / 2; lanes > 0; lanes /= 2) {
    value = max(value, __shfl_xor_sync(kWholeWarp, value, lanes));
  }
  return value;
}

struct Sums {
  int count;
  uint64_t measure;
};

// Of the keys in [low, high): their number, and their measures' sum. For every thread.
template <typename Keys, typename Measure>
__device__ Sums SumsOf(const Keys& keys, uint64_t low, uint64_t high, const Measure& measure) {
  HYDRANT_SHARED(uint64_t, counts, kWarps);
  HYDRANT_SHARED(uint64_t, measures, kWarps);
  uint64_t count = 0, sum = 0;
  for (int i = threadIdx.x; i < keys.count; i += kThreads) {
    const uint64_t key = keys[i];
    if (key < low || key >= high) continue;
    ++count;
    sum += measure(key);
  }
  count = WarpSum(count);
  sum = WarpSum(sum);
  if (threadIdx.x % kWarpSize == 0) {
    counts[threadIdx.x / kWarpSize] = count;
    measures[threadIdx.x / kWarpSize] = sum;
  }
  __syncthreads();
  Sums sums = {0, 0};
  for (int i = 0; i < kWarps; ++i) {
    sums.count += static_cast<int>(counts[i]);
    sums.measure += measures[i];
  }
  __syncthreads();
  return sums;
}

// The threshold that is looked for lies in [low, high): keys from `low` on reach the target, those
// from `high` on, which measure `above`, do not.
struct Search {
  uint64_t low, high, above;
  int undecided;  // keys in [low, high)
};

// Halves the range until at most `enough` keys are undecided.
template <typename Keys, typename Measure>
__device__ void Narrow(const Keys& keys, const Measure& measure, uint64_t target, int enough,
                       Search& search) {
  while (search.undecided > enough) {
    const uint64_t middle = search.low + (search.high - search.low) / 2;
    const Sums sums = SumsOf(keys, middle, search.high, measure);
    if (search.above + sums.measure >= target) {
      search.low = middle;
      search.undecided = sums.count;
    } else {
      search.high = middle;
      search.above += sums.measure;
      search.undecided -= sums.count;
    }
  }
}

// The keys from the result on are the fewest, best first, that measure `target`. Those from `low`
// on do, and none is above `best`.
template <typename Measure>
__device__ uint64_t Threshold(const RowKeys& row, const Measure& measure, uint64_t target,
                              uint64_t low, uint64_t best, uint64_t* list) {
  HYDRANT_SHARED(int, listed, 1);
  Search search{low, best + 1, 0, SumsOf(row, low, best + 1, measure).count};
  Narrow(row, measure, target, kListed, search);
  if (threadIdx.x == 0) listed[0] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < row.count; i += kThreads) {
    const uint64_t key = row[i];
    if (key >= search.low && key < search.high) list[atomicAdd(&listed[0], 1)] = key;
  }
  __syncthreads();
  // In no order, which does not matter to sums of whole numbers.
  Narrow(ListKeys{list, search.undecided}, measure, target, 1, search);
  __syncthreads();
  return search.low;
}

// The threshold of the top_k best, of whom there are more. As many of the threads' own best keys
// are at least as good as the last of them, which leaves few others to look at.
__device__ uint64_t TopK(const RowKeys& row, int top_k, uint64_t best, uint64_t own_best,
                         uint64_t* list) {
  uint64_t low = 1;
  if (top_k <= kThreads) {
    list[threadIdx.x] = own_best;
    __syncthreads();
    const ListKeys own{list, kThreads};
    Search search{1, best + 1, 0, SumsOf(own, 1, best + 1, One()).count};
    if (search.undecided >= top_k) {
      Narrow(own, One(), top_k, 1, search);
      low = search.low;
    }
    __syncthreads();
  }
  return Threshold(row, One(), top_k, low, best, list);
}

// The threshold of top_p of the keys from `low` on.
__device__ uint64_t TopP(const RowKeys& row, const Mass& mass, float top_p, uint64_t low,
                         uint64_t best, uint64_t* list) {
  const uint64_t total = SumsOf(row, low, best + 1, mass).measure;
  const auto target = static_cast<uint64_t>(MassForTopP(top_p, static_cast<double>(total)));
  return Threshold(row, mass, target, low, best, list);
}

// The token at which the masses of the keys from `low` on that weigh min_p, added up in the order
// of ids, are more than u times their sum. Warps share out a stretch of ids, then the part of it in
// which that happens, and so on.
__device__ int DrawById(const RowKeys& row, const Mass& mass, uint64_t low, float min_p, double u) {
  HYDRANT_SHARED(uint64_t, sums, kWarps);
  const int warp = threadIdx.x / kWarpSize;
  int begin = 0, end = row.count;
  uint64_t target = 0;
  while (true) {
    const int part = (end - begin + kWarps - 1) / kWarps;
    const int own_begin = min(begin + warp * part, end), own_end = min(own_begin + part, end);
    uint64_t sum = 0;
    for (int i = own_begin + threadIdx.x % kWarpSize; i < own_end; i += kWarpSize) {
      const uint64_t key = row[i];
      const float weight = mass.WeightOf(key);
      if (key >= low && weight >= min_p) sum += mass.FromWeight(weight);
    }
    sum = WarpSum(sum);
    if (threadIdx.x % kWarpSize == 0) sums[warp] = sum;
    __syncthreads();
    if (target == 0) {
      uint64_t total = 0;
      for (int i = 0; i < kWarps; ++i) total += sums[i];
      target = static_cast<uint64_t>(MassForDraw(u, static_cast<double>(total)));
    }
    int at = 0;
    while (sums[at] < target) target -= sums[at++];
    __syncthreads();
    begin += at * part;
    end = min(begin + part, end);
    if (part == 1) return begin;
  }
}

__global__ void __launch_bounds__(kThreads)
    SampleKernel(float* logits, int vocabulary, const DeviceDraw* draws,
                 const LogitChange* all_changes, float* all_replaced, int32_t* tokens) {
  HYDRANT_SHARED(uint64_t, list, kListed);
  HYDRANT_SHARED(uint64_t, warp_best, kWarps);
  const DeviceDraw draw = draws[blockIdx.x];
  float* const x = logits + draw.row * vocabulary;
  const LogitChange* const changes = all_changes + draw.first_change;
  float* const replaced = all_replaced + draw.first_change;
  for (int i = threadIdx.x; i < draw.changes; i += kThreads) {
    float& logit = x[changes[i].id];
    replaced[i] = logit;
    logit = Changed(changes[i], logit);
  }
  __syncthreads();

  const RowKeys row{x, vocabulary};
  uint64_t own_best = 0;
  for (int i = threadIdx.x; i < vocabulary; i += kThreads) {
    own_best = max(own_best, row[i]);
  }
  const uint64_t best_of_warp = WarpMax(own_best);
  if (threadIdx.x % kWarpSize == 0) warp_best[threadIdx.x / kWarpSize] = best_of_warp;
  __syncthreads();
  uint64_t best = 0;
  for (int i = 0; i < kWarps; ++i) best = max(best, warp_best[i]);

  int token = best == 0 ? -1 : IdOf(best);
  if (best != 0 && draw.temperature != 0.0f) {
    const Mass mass{LogitOf(best), draw.temperature, MassOfOne(vocabulary)};
    uint64_t low = 1;
    if (draw.top_k > 0 && draw.top_k < SumsOf(row, 1, best + 1, One()).count) {
      low = TopK(row, draw.top_k, best, own_best, list);
    }
    if (draw.top_p < 1.0f) low = TopP(row, mass, draw.top_p, low, best, list);
    token = DrawById(row, mass, low, draw.min_p, draw.u);
  }
  if (threadIdx.x == 0) tokens[blockIdx.x] = token;
  __syncthreads();
  for (int i = threadIdx.x; i < draw.changes; i += kThreads) x[changes[i].id] = replaced[i];
}

}  // namespace

void LaunchSample(float* logits, int64_t vocabulary, const DeviceDraw* draws, int64_t count,
                  const LogitChange* changes, float* replaced, int32_t* tokens,
                  cudaStream_t stream) {
  if (count == 0) return;
  HYDRANT_LAUNCH(SampleKernel, static_cast<unsigned>(count), kThreads, 0, stream, logits,
                 static_cast<int>(vocabulary), draws, changes, replaced, tokens);
}

}  // namespace hydrant::kernels::HYDRANT_CUDA_NAMESPACE
