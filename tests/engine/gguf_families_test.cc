// A checkpoint of each family, written as GGUF the way the conversion does it (names, the order of
// rows, what is added to norms), gives the logits of the Hugging Face directory bit by bit.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/weights/checkpoint.h"
#include "tests/engine/checkpoint_logits.h"
#include "tests/engine/gguf_conversion.h"
#include "tests/engine/temp_dir.h"

namespace hydrant::engine {
namespace {

using weights::Checkpoint;

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

// The conversion writes Llama 3's scaling as what it divides each frequency by, in f32.
TEST(GgufRopeTest, DivisorsGiveTheLogitsOfLlama3Scaling) {
  const Family family = {"llama3-rope", "llama", "model.layers.", kLlamaTop, kLlamaLayer};
  const auto directory = Checkpoint::Open(HYDRANT_TEST_DATA "/golden/" + family.checkpoint);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const ModelConfig& c = (*directory)->config();
  ASSERT_EQ(c.rope.scaling, RopeScaling::kLlama3);
  std::string divisors;
  int blended = 0;
  for (int i = 0; i < c.rotary_dim; i += 2) {
    const double length = 2 * M_PI * std::pow(c.rope.theta, static_cast<double>(i) / c.rotary_dim);
    const double turns = c.rope.original_max_position_embeddings / length;
    double divisor = 1;
    if (turns < c.rope.low_freq_factor) {
      divisor = c.rope.factor;
    } else if (turns <= c.rope.high_freq_factor) {
      const double smooth =
          (turns - c.rope.low_freq_factor) / (c.rope.high_freq_factor - c.rope.low_freq_factor);
      divisor = 1 / ((1 - smooth) / c.rope.factor + smooth);
      ++blended;
    }
    divisors += Bytes(static_cast<float>(divisor));
  }
  EXPECT_GT(blended, 0);
  GgufWriter writer;
  writer.Tensor("rope_freqs.weight", {static_cast<uint64_t>(c.rotary_dim / 2)}, 0, divisors);
  const TempDir dir;
  const auto file = Checkpoint::Open(
      dir.Write("model.gguf", Convert(family, **directory, std::move(writer)).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->config().rope.scaling, RopeScaling::kNone);
  const std::vector<float> expected = Logits(**directory), logits = Logits(**file);
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-4f) << i;
}

}  // namespace
}  // namespace hydrant::engine
