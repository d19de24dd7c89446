// A passkey in a real model's long prompt: where eviction loses it, the audit says that something
// was lost, and how much. The file's path is the build's HYDRANT_E2E_MODEL.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "tests/engine/engine_driver.h"

namespace hydrant::engine {
namespace {

constexpr char kPasskey[] = "71432";

std::string Prompt() {
  const std::string filler =
      " The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";
  std::string text =
      "There is an important piece of information hidden inside a lot of irrelevant text. Find it "
      "and memorize it.";
  for (int i = 0; i < 12; ++i) text += filler;
  text += std::string(" The pass key is ") + kPasskey + ". Remember it. " + kPasskey +
          " is the pass key.";
  for (int i = 0; i < 16; ++i) text += filler;
  return text + " What is the pass key? Answer with the number only.";
}

struct Answer {
  std::string text;
  Recall recall;
};

class PasskeyRecallTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_path = HYDRANT_TEST_MODEL;
    options.kv_cache_bytes = int64_t{100} << 20;
    engine_ = LoadEngine(options);
    ASSERT_NE(engine_, nullptr);
  }

  Answer Ask(EvictionPolicyKind policy, std::optional<int32_t> budget) {
    GenerateRequest request;
    request.input = chat::Conversation{{{"user", Prompt()}}, true};
    request.sampling.temperature = 0;
    request.stopping.max_tokens = 24;
    request.eviction.policy = policy;
    request.eviction.budget_tokens = budget;
    request.eviction.audit = true;
    const auto stream = Submit(*engine_, request);
    stream->Wait();
    EXPECT_TRUE(stream->finished.has_value());
    if (!stream->finished) return {};
    return {stream->text(), stream->finished->usage.recall.value_or(Recall{})};
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(PasskeyRecallTest, IsOneWhereTheKeyIsHeldAndLowWhereItIsLost) {
  const Answer full = Ask(EvictionPolicyKind::kFull, std::nullopt);
  EXPECT_NE(full.text.find(kPasskey), std::string::npos) << full.text;
  EXPECT_EQ(full.recall.mean, 1);

  const Answer roomy = Ask(EvictionPolicyKind::kH2O, 2000);
  EXPECT_EQ(roomy.text, full.text);
  EXPECT_EQ(roomy.recall.mean, 1);
  EXPECT_EQ(roomy.recall.p5, 1);

  const Answer half = Ask(EvictionPolicyKind::kH2O, 400);
  const Answer small = Ask(EvictionPolicyKind::kH2O, 128);
  const Answer recent = Ask(EvictionPolicyKind::kWindow, 128);
  for (const Answer* lost : {&half, &small, &recent}) {
    EXPECT_EQ(lost->text.find(kPasskey), std::string::npos) << lost->text;
    EXPECT_GT(lost->recall.steps, 0);
    EXPECT_TRUE(lost->recall.complete);
    EXPECT_LT(lost->recall.p5, 0.8);  // some heads have lost what they look for
  }
  EXPECT_LT(half.recall.mean, 0.97);
  EXPECT_LT(small.recall.mean, 0.9);
  EXPECT_LT(recent.recall.mean, 0.5);  // the first tokens are gone, too
  EXPECT_GT(half.recall.mean, small.recall.mean);
  EXPECT_GT(small.recall.mean, recent.recall.mean);
}

}  // namespace
}  // namespace hydrant::engine
