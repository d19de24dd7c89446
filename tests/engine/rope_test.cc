// RoPE frequencies against those of transformers (modeling_rope_utils.py).

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/models/blocks.h"
#include "engine/weights/hf_config.h"

namespace hydrant::engine {
namespace {

struct Case {
  const char* parameters;
  std::vector<float> frequencies;
  float attention_factor;
};

TEST(RopeTest, YarnIsThatOfTransformers) {
  const Case cases[] = {
      {R"("original_max_position_embeddings": 64, "factor": 4.0)",
       {1.0f, 0.23717082f, 0.049999997f, 0.0079056947f, 0.0024999999f, 0.00079056947f,
        0.00025000001f, 7.9056947e-05f},
       1.13862944f},
      // Stretched to the whole context: the file's own length is the original one.
      {R"("factor": 4.0)",
       {1.0f, 0.25693506f, 0.0625f, 0.013834965f, 0.0024999999f, 0.00079056947f, 0.00025000001f,
        7.9056947e-05f},
       1.13862944f},
      // By the lengths alone.
      {R"("original_max_position_embeddings": 64)",
       {1.0f, 0.23717082f, 0.049999997f, 0.0079056947f, 0.0024999999f, 0.00079056947f,
        0.00025000001f, 7.9056947e-05f},
       1.13862944f},
      {R"("original_max_position_embeddings": 32, "factor": 8.0, "mscale": 0.7,
          "mscale_all_dim": 1.0, "truncate": false)",
       {1.0f, 0.12053399f, 0.0125f, 0.0039528473f, 0.00125f, 0.00039528473f, 0.00012500001f,
        3.9528473e-05f},
       0.94835585f},
      {R"("original_max_position_embeddings": 64, "factor": 4.0, "beta_fast": 16, "beta_slow": 2,
          "attention_factor": 0.8)",
       {1.0f, 0.19764236f, 0.025f, 0.0079056947f, 0.0024999999f, 0.00079056947f, 0.00025000001f,
        7.9056947e-05f},
       0.8f}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.parameters);
    const auto config = weights::ReadHfConfig(
        "config.json",
        nlohmann::json::parse(std::string(R"({"model_type": "llama", "vocab_size": 10,
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
            "num_attention_heads": 4, "max_position_embeddings": 256,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", )") +
                              c.parameters + "}}"));
    ASSERT_TRUE(config.ok()) << config.status();
    const kernels::RopeParams rope = MakeRope(config->rope, config->rotary_dim);
    ASSERT_EQ(rope.inv_freq.size(), c.frequencies.size());
    for (size_t i = 0; i < rope.inv_freq.size(); ++i) {
      EXPECT_NEAR(rope.inv_freq[i], c.frequencies[i], 1e-6f * c.frequencies[i]) << i;
    }
    EXPECT_FLOAT_EQ(rope.attention_factor, c.attention_factor);
  }
}

}  // namespace
}  // namespace hydrant::engine
