#include "engine/turn_end.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/weights/gguf.h"

namespace hydrant::engine {
namespace {

class TurnEnd : public testing::Test {
 protected:
  void SetUp() override {
    auto file = weights::GgufFile::Open(HYDRANT_TEST_VOCABULARIES "/ggml-vocab-llama-bpe.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    auto tokenizer = Tokenizer::FromGguf(**file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::optional<int32_t> Of(const std::string& source) {
    const auto chat = chat::Template::Parse(source, tokenizer_->named_tokens());
    EXPECT_TRUE(chat.ok()) << chat.status();
    return EndOfTurn(*chat, *tokenizer_);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TurnEnd, IsWhatTheTemplateWritesAfterAnAnswer) {
  constexpr int32_t kEndOfText = 128001, kEot = 128009;
  EXPECT_EQ(Of("{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
               "{{ m.content }}<|eot_id|>{% endfor %}"),
            kEot);
  EXPECT_EQ(Of("{% for m in messages %}{{ m.content }} \n<|eot_id|><|end_of_text|>{% endfor %}"),
            kEot);
  EXPECT_EQ(Of("{% for m in messages %}{{ m.content + '<|end_of_text|>' }}{% endfor %}"),
            kEndOfText);
}

TEST_F(TurnEnd, IsNoneWhereTheTemplateHasNone) {
  EXPECT_EQ(Of("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), std::nullopt);
  EXPECT_EQ(Of("{% for m in messages %}{{ m.content }}. <|eot_id|>{% endfor %}"), std::nullopt);
  EXPECT_EQ(Of("{% for m in messages %}{{ m.role }}<|eot_id|>{% endfor %}"), std::nullopt);
  EXPECT_EQ(Of("{{ raise_exception('not this') }}"), std::nullopt);
}

}  // namespace
}  // namespace hydrant::engine
