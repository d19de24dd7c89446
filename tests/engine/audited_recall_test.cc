// What an audit measures beside what the full cache really does, on the golden checkpoints.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "engine/audit.h"
#include "tests/engine/sequence_driver.h"

namespace hydrant::engine {
namespace {

// A checkpoint and a backend.
class AuditedRecallTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// In the first layer queries and keys depend on their tokens alone, so the attention of a full
// cache's run is that of the evicting run's history: what fell on the evicted is what is missing.
TEST_P(AuditedRecallTest, WhatIsMissingIsWhatTheFullCacheGaveToTheEvicted) {
  constexpr int32_t kPrompt = 90, kBlocks = 8;
  const kernels::EvictionPolicy policy{2, 10, 12};
  std::unique_ptr<kernels::Backend> backend;
  const auto& [checkpoint, backend_name] = GetParam();
  if (backend_name == "reference") {
    backend = kernels::CreateReferenceBackend();
  } else {
    backend = *kernels::CreateCpuBackend({.threads = 2});
  }
  LoadedModel loaded(HYDRANT_TEST_DATA "/golden/" + checkpoint, std::move(backend),
                     kernels::WeightDType::kF32, kernels::KvDType::kF32, kPrompt,
                     2 * kBlocks * kernels::kBlockSlots);
  const ModelConfig& config = loaded.model->config();
  const AuditShape shape{config.num_hidden_layers, config.num_attention_heads,
                         config.num_key_value_heads, config.head_dim};
  const int group = shape.heads / shape.kv_heads;

  std::vector<int32_t> full_blocks(kBlocks), blocks(kBlocks);
  std::iota(full_blocks.begin(), full_blocks.end(), 0);
  std::iota(blocks.begin(), blocks.end(), kBlocks);
  const auto run = [&](const std::vector<int32_t>& held_blocks, int32_t first, int32_t rows,
                       int32_t num_slots, const kernels::RecallAudit* audit) {
    kernels::Batch batch;
    for (int32_t i = 0; i < rows; ++i) {
      batch.token_ids.push_back(3 + (first + i) * 37 % 500);
      batch.positions.push_back(first + i);
    }
    kernels::BatchSequence sequence;
    sequence.num_rows = rows;
    sequence.first_position = first;
    sequence.num_slots = num_slots;
    sequence.blocks = held_blocks.data();
    sequence.keep_scores = true;
    sequence.audit = audit;
    batch.sequences.push_back(sequence);
    loaded.model->Forward(batch, *loaded.kv);
  };
  const auto score = [&](int head, int32_t position) {
    return loaded.kv->Score(
        0, head,
        int64_t{full_blocks[position / kernels::kBlockSlots]} * kernels::kBlockSlots +
            position % kernels::kBlockSlots);
  };

  run(full_blocks, 0, kPrompt, kPrompt, nullptr);
  std::vector<std::vector<double>> given(shape.kv_heads, std::vector<double>(kPrompt));
  for (int head = 0; head < shape.kv_heads; ++head) {
    for (int32_t p = 0; p < kPrompt; ++p) given[head][p] = -score(head, p);
  }
  run(full_blocks, kPrompt, 1, kPrompt + 1, nullptr);
  for (int head = 0; head < shape.kv_heads; ++head) {
    for (int32_t p = 0; p < kPrompt; ++p) given[head][p] += score(head, p);
  }

  run(blocks, 0, kPrompt, kPrompt, nullptr);
  AuditMemory memory(int64_t{1} << 30);
  Audit audit(shape, memory);
  const kernels::EvictionItem item{policy,      kPrompt,
                                   kPrompt - 1, blocks.data(),
                                   nullptr,     audit.MakeRoom(kPrompt - policy.budget())};
  loaded.backend->Compact({&item, 1}, *loaded.kv);
  std::vector<std::vector<bool>> held(shape.kv_heads, std::vector<bool>(kPrompt));
  for (int head = 0; head < shape.kv_heads; ++head) {
    for (int32_t slot = 0; slot < policy.budget(); ++slot) {
      const int64_t block = blocks[slot / kernels::kBlockSlots];
      held[head][loaded.kv->Position(
          0, head, block * kernels::kBlockSlots + slot % kernels::kBlockSlots)] = true;
    }
  }
  const kernels::RecallAudit* step = audit.BeginStep(policy.budget() + 1);
  ASSERT_NE(step, nullptr);
  run(blocks, kPrompt, 1, policy.budget() + 1, step);
  for (int head = 0; head < shape.kv_heads; ++head) {
    double missing = 0;  // summed over the query heads that share the KV head
    for (int g = 0; g < group; ++g) missing += 1 - step->recall[head * group + g];
    double to_evicted = 0;
    for (int32_t p = 0; p < kPrompt; ++p) {
      if (!held[head][p]) to_evicted += given[head][p];
    }
    // A layer with a window has evicted what it had passed.
    const bool windowed = !config.sliding_windows.empty() && config.sliding_windows[0] > 0;
    EXPECT_GT(to_evicted, windowed ? -1e-4 : 0.1);
    // An audit's keys and queries are bf16: a product is off by up to 2^-8 of itself.
    EXPECT_NEAR(missing, to_evicted, 0.01 * std::fabs(to_evicted) + 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, AuditedRecallTest,
                         ::testing::Combine(::testing::Values("llama-gqa", "gemma3", "gpt-neox",
                                                              "mistral", "opt", "qwen2", "qwen3"),
                                            ::testing::Values("reference", "cpu")),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hydrant::engine
