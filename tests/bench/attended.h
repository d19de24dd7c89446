// Sequences with a filled KV cache, at the shapes of SmolLM2-135M unless told otherwise, for
// benchmarks of attention.

#ifndef HYDRANT_TESTS_BENCH_ATTENDED_H_
#define HYDRANT_TESTS_BENCH_ATTENDED_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "kernels/check.h"

namespace hydrant::bench {

using kernels::Backend;

inline constexpr int kLayers = 30, kHeads = 9, kKvHeads = 3, kHeadDim = 64;
inline constexpr kernels::AttentionShape kShape = {kHeads, kKvHeads, kHeadDim, 0.125f};

inline std::unique_ptr<Backend> MakeBackend(int threads = 0) {
  auto backend = kernels::CreateCpuBackend({.threads = threads});
  HYDRANT_CHECK(backend.ok());
  return *std::move(backend);
}

inline float Noise(uint64_t i) {
  return static_cast<float>((i * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 32768.0f - 1.0f;
}

inline kernels::Buffer Fill(Backend& backend, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = Noise(i);
  return backend.Upload(values);
}

// Sequences that have their blocks and share one pass.
struct Attended {
  Attended(Backend& backend, int layers, int sequences, int rows, int slots, bool keep_scores,
           kernels::KvDType dtype, const kernels::AttentionShape& of_shape = kShape,
           int64_t max_cols = 1536)
      : shape(of_shape),
        store(*backend.CreateKvStore({layers,
                                      shape.kv_heads,
                                      shape.head_dim,
                                      dtype,
                                      sequences * (slots / kernels::kBlockSlots),
                                      {}})),
        qkv_values(Fill(backend, sequences * rows * qkv_cols())),
        out_values(backend.Allocate(sequences * rows * out_cols() * sizeof(float))) {
    const int blocks = slots / kernels::kBlockSlots;
    block_ids.resize(sequences * blocks);
    std::iota(block_ids.begin(), block_ids.end(), 0);
    backend.Reserve(std::max(sequences * rows, slots), max_cols, slots, shape);
    batch.token_ids.resize(sequences * rows);
    for (int s = 0; s < sequences; ++s) {
      batch.sequences.push_back({.first_row = s * rows,
                                 .num_rows = rows,
                                 .first_position = slots - rows,
                                 .num_slots = slots,
                                 .blocks = block_ids.data() + s * blocks,
                                 .keep_scores = keep_scores});
      for (int r = 0; r < rows; ++r) batch.positions.push_back(slots - rows + r);
    }
    qkv = {qkv_values.data(), sequences * rows, qkv_cols()};
    out = {out_values.data(), sequences * rows, out_cols()};
    FillStore(backend, sequences, slots, layers);
  }

  // Every slot gets a key, a value and a position.
  void FillStore(Backend& backend, int sequences, int slots, int layers) {
    const kernels::Buffer values = Fill(backend, slots * qkv_cols());
    for (int s = 0; s < sequences; ++s) {
      kernels::Batch fill;
      fill.token_ids.resize(slots);
      fill.positions.resize(slots);
      std::iota(fill.positions.begin(), fill.positions.end(), 0);
      fill.sequences.push_back(batch.sequences[s]);
      fill.sequences[0].first_row = 0;
      fill.sequences[0].num_rows = slots;
      for (int layer = 0; layer < layers; ++layer) {
        backend.RopeAndStore(fill, shape, 0, {nullptr, slots, 0},
                             {values.data(), slots, qkv_cols()}, layer, *store);
      }
    }
  }

  int64_t out_cols() const { return int64_t{shape.heads} * shape.head_dim; }
  int64_t qkv_cols() const { return out_cols() + int64_t{2} * shape.kv_heads * shape.head_dim; }

  const kernels::AttentionShape shape;
  std::unique_ptr<kernels::KvStore> store;
  kernels::Buffer qkv_values, out_values;
  std::vector<int32_t> block_ids;
  kernels::Batch batch;
  kernels::Matrix qkv, out;
};

}  // namespace hydrant::bench

#endif  // HYDRANT_TESTS_BENCH_ATTENDED_H_
