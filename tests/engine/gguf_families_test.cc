// A checkpoint of each family, written as GGUF the way the conversion does it (names, the order of
// rows, what is added to norms), gives the logits of the Hugging Face directory bit by bit.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/models/model.h"
#include "engine/weights/checkpoint.h"
#include "kernels/backend.h"
#include "tests/engine/gguf_conversion.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using weights::Checkpoint;

// After each of a few tokens, longer than Gemma's window.
std::vector<float> Logits(const Checkpoint& checkpoint) {
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
  const auto logits = (*model)->Logits(batch.positions);
  return {logits.begin(), logits.end()};
}

class GgufFamiliesTest : public testing::TestWithParam<Family> {};

TEST_P(GgufFamiliesTest, GivesTheLogitsOfTheDirectory) {
  const Family& family = GetParam();
  const auto directory = Checkpoint::Open(HYDRANT_TEST_DATA "/golden/" + family.checkpoint);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const TempDir dir;
  const auto file = Checkpoint::Open(dir.Write("model.gguf", Convert(family, **directory).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->num_parameters(), (*directory)->num_parameters());
  const std::vector<float> expected = Logits(**directory);
  ASSERT_FALSE(expected.empty());
  for (const float logit : expected) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_EQ(Logits(**file), expected);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufFamiliesTest, testing::ValuesIn(kFamilies),
                         [](const auto& info) {
                           std::string name = info.param.checkpoint;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace hydrant::engine
