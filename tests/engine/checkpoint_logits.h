// The logits of a checkpoint on the reference backend in f32: whether two files are one model.

#ifndef HYDRANT_TESTS_ENGINE_CHECKPOINT_LOGITS_H_
#define HYDRANT_TESTS_ENGINE_CHECKPOINT_LOGITS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/models/model.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"

namespace hydrant::engine {

// After each of a few tokens, longer than Gemma's window.
inline std::vector<float> Logits(const weights::Checkpoint& checkpoint) {
  constexpr int kTokens = 60;
  const auto backend = kernels::CreateReferenceBackend();
  const ModelConfig& c = checkpoint.config();
  Model::Options options;
  options.weight_dtype = kernels::WeightDType::kF32;
  options.max_rows = kTokens;
  auto model = Model::Load(checkpoint, *backend, options, [](double) {});
  if (!model.ok()) {
    ADD_FAILURE() << model.status();
    return {};
  }
  const auto store = backend->CreateKvStore({c.num_hidden_layers, c.num_key_value_heads, c.head_dim,
                                             kernels::KvDType::kF32, 4, c.sliding_windows});
  const std::vector<int32_t> blocks = {0, 1, 2, 3};
  kernels::Batch batch;
  for (int i = 0; i < kTokens; ++i) batch.token_ids.push_back((i * 37 + 11) % c.vocab_size);
  batch.positions.resize(kTokens);
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.sequences.push_back({.num_rows = kTokens, .num_slots = kTokens, .blocks = blocks.data()});
  (*model)->Forward(batch, **store);
  const kernels::Matrix logits = (*model)->Logits(batch.positions);
  const float* values = backend->HostRows(logits);
  return {values, values + logits.rows * logits.cols};
}

}  // namespace hydrant::engine

#endif  // HYDRANT_TESTS_ENGINE_CHECKPOINT_LOGITS_H_
