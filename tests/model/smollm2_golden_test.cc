// Parity with Hugging Face transformers on a real model, SmolLM2-135M-Instruct from its Q4_1 GGUF,
// weights dequantised: greedy chats, log-probabilities of text, and eviction of a 640-token prompt.
// The file's path is the build's HYDRANT_E2E_MODEL (deploy/fetch_model.sh fetches it).

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/chat/chat.h"
#include "tests/engine/sequence_driver.h"

namespace hydrant::engine {
namespace {

constexpr int32_t kMaxRows = 512;

class SmolLM2Test : public ::testing::Test {
 protected:
  // Loaded once: half a gigabyte of f32 weights.
  static void SetUpTestSuite() {
    auto backend = kernels::CreateCpuBackend({});
    ASSERT_TRUE(backend.ok()) << backend.status();
    loaded_ = std::make_unique<LoadedModel>(HYDRANT_TEST_MODEL, *std::move(backend),
                                            kernels::WeightDType::kF32, kernels::KvDType::kF32,
                                            kMaxRows, 4096);
    golden_ = ReadJson(HYDRANT_TEST_DATA "/golden/smollm2-135m-instruct.json");
  }
  static void TearDownTestSuite() { loaded_.reset(); }

  static std::unique_ptr<LoadedModel> loaded_;
  static nlohmann::json golden_;
};

std::unique_ptr<LoadedModel> SmolLM2Test::loaded_;
nlohmann::json SmolLM2Test::golden_;

TEST_F(SmolLM2Test, ChatsRenderTokeniseAndContinueGreedily) {
  auto chat = chat::Template::Parse(*loaded_->checkpoint->chat_template());
  ASSERT_TRUE(chat.ok()) << chat.status();
  std::vector<DriverRequest> requests;
  for (const auto& expected : golden_["chat"]) {
    const auto rendered = chat->Render({{{"user", expected["content"]}}, true});
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, expected["rendered"].get<std::string>());
    DriverRequest request;
    request.prompt = loaded_->tokenizer->Encode(*rendered, false);
    EXPECT_EQ(request.prompt, expected["prompt_ids"].get<std::vector<int32_t>>());
    request.max_tokens = static_cast<int32_t>(expected["greedy_ids"].size());
    requests.push_back(request);
  }
  ASSERT_FALSE(requests.empty());
  const auto results = SequenceDriver(*loaded_, kMaxRows, 8).Run(requests, false);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& expected = golden_["chat"][i];
    EXPECT_EQ(results[i].tokens, expected["greedy_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(loaded_->tokenizer->Decode(results[i].tokens, true),
              expected["text"].get<std::string>());
  }
}

TEST_F(SmolLM2Test, LogProbabilitiesOfText) {
  std::vector<DriverRequest> requests;
  for (const auto& expected : golden_["text"]) {
    DriverRequest request;
    request.prompt = loaded_->tokenizer->Encode(expected["text"].get<std::string>(), false);
    EXPECT_EQ(request.prompt, expected["ids"].get<std::vector<int32_t>>());
    request.prompt_logprobs = true;
    requests.push_back(request);
  }
  ASSERT_FALSE(requests.empty());
  const auto results = SequenceDriver(*loaded_, kMaxRows, 8).Run(requests, false);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& expected = golden_["text"][i]["prompt_logprobs"];
    ASSERT_EQ(results[i].prompt_logprobs.size() + 1, expected.size());
    float worst = 0;
    for (size_t j = 1; j < expected.size(); ++j) {
      worst =
          std::max(worst, std::abs(results[i].prompt_logprobs[j - 1] - expected[j].get<float>()));
    }
    std::printf("text %zu: max |log-probability difference| %.2e\n", i, worst);
    EXPECT_LE(worst, 0.02f);
  }
}

TEST_F(SmolLM2Test, EvictionOfALongPrompt) {
  std::vector<DriverRequest> requests;
  for (const auto& trace : golden_["h2o"]) {
    DriverRequest request;
    request.prompt = golden_["text"][0]["ids"].get<std::vector<int32_t>>();
    request.max_tokens = static_cast<int32_t>(trace["greedy_ids"].size());
    const auto& policy = trace["policy"];
    request.policy = kernels::EvictionPolicy{policy["sink"], policy["heavy"], policy["recent"]};
    requests.push_back(request);
  }
  ASSERT_FALSE(requests.empty());
  const auto results = SequenceDriver(*loaded_, kMaxRows, 8).Run(requests, true);
  using Positions = std::vector<std::vector<std::vector<int32_t>>>;
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE("trace " + std::to_string(i));
    const auto& trace = golden_["h2o"][i];
    EXPECT_EQ(results[i].kept.front(), trace["kept_after_prompt"].get<Positions>());
    EXPECT_EQ(results[i].tokens, trace["greedy_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(results[i].kept.back(), trace["kept_at_end"].get<Positions>());
  }
}

}  // namespace
}  // namespace hydrant::engine
