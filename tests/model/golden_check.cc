// Compares a model with what make_golden.py wrote of the same file, in f32:
//   golden_check MODEL GOLDEN.json
// Token ids of each prompt and the greedy continuation are equal, and log-probabilities of the
// prompt within kClose. Greedy tokens are compared up to the first whose lead over the second was
// below it: from there on, rounding decides.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/engine/sequence_driver.h"

namespace hydrant::engine {
namespace {

constexpr int32_t kMaxRows = 512;
constexpr float kClose = 0.002f;

std::string model_path, golden_path;

TEST(GoldenCheck, AgreesWithTransformers) {
  const nlohmann::json golden = ReadJson(golden_path);
  auto backend = kernels::CreateCpuBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  LoadedModel loaded(model_path, *std::move(backend), kernels::WeightDType::kF32,
                     kernels::KvDType::kF32, kMaxRows, 4096);
  ASSERT_FALSE(HasFailure());
  std::vector<DriverRequest> requests;
  for (const auto& expected : golden["prompts"]) {
    DriverRequest request;
    request.prompt = expected["prompt_ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(loaded.tokenizer->Encode(expected["text"].get<std::string>(), true), request.prompt);
    request.max_tokens = static_cast<int32_t>(expected["greedy_ids"].size());
    request.prompt_logprobs = true;
    requests.push_back(request);
  }
  ASSERT_FALSE(requests.empty());
  const auto results = SequenceDriver(loaded, kMaxRows, 8).Run(requests, false);
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    const auto& expected = golden["prompts"][i];
    const auto& logprobs = expected["prompt_logprobs"];
    ASSERT_EQ(results[i].prompt_logprobs.size(), logprobs.size());
    float worst = 0;
    for (size_t j = 0; j < logprobs.size(); ++j) {
      worst = std::max(worst, std::abs(results[i].prompt_logprobs[j] - logprobs[j].get<float>()));
    }
    EXPECT_LE(worst, kClose);
    auto greedy = expected["greedy_ids"].get<std::vector<int32_t>>();
    const auto margins = expected["margins"].get<std::vector<float>>();
    const size_t clear =
        std::find_if(margins.begin(), margins.end(), [](float m) { return m < kClose; }) -
        margins.begin();
    auto tokens = results[i].tokens;
    tokens.resize(clear);
    greedy.resize(clear);
    EXPECT_EQ(tokens, greedy);
    std::printf(
        "prompt %zu: %zu tokens, max |log-probability difference| %.1e; %zu greedy tokens "
        "compared\n",
        i, requests[i].prompt.size(), worst, clear);
  }
}

}  // namespace
}  // namespace hydrant::engine

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: golden_check MODEL GOLDEN.json\n");
    return 2;
  }
  hydrant::engine::model_path = argv[1];
  hydrant::engine::golden_path = argv[2];
  return RUN_ALL_TESTS();
}
