#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/chat/chat.h"

namespace hydrant::engine::chat {
namespace {

Conversation ConversationOf(const nlohmann::json& example) {
  Conversation conversation;
  for (const auto& message : example["messages"]) {
    conversation.messages.push_back({message["role"], message["content"]});
  }
  conversation.add_generation_prompt = example["add_generation_prompt"];
  return conversation;
}

// tests/data/chat_templates.json was rendered by Jinja with Hugging Face's settings.
TEST(ChatTemplateTest, RendersAsJinja) {
  std::ifstream file(HYDRANT_TEST_DATA "/chat_templates.json");
  const auto examples = nlohmann::json::parse(file);
  ASSERT_GT(examples.size(), 20u);
  for (const auto& example : examples) {
    const auto chat = Template::Parse(example["template"]);
    ASSERT_TRUE(chat.ok()) << chat.status() << example["template"];
    const auto rendered = chat->Render(ConversationOf(example));
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, example["rendered"]) << example["template"];
  }
}

TEST(ChatTemplateTest, RendersTheGoldenChats) {
  for (const std::string name : {"llama-gqa", "llama3-rope", "llama-spm-bf16"}) {
    std::ifstream file(HYDRANT_TEST_DATA "/golden/" + name + "/chat_template.jinja");
    const auto chat = Template::Parse({std::istreambuf_iterator<char>(file), {}});
    ASSERT_TRUE(chat.ok()) << chat.status();
    const auto rendered = chat->Render({{{"user", "Hi there"}}, true});
    ASSERT_TRUE(rendered.ok()) << rendered.status();
    EXPECT_EQ(*rendered, "<s>user\nHi there</s>\n<s>assistant\n");
  }
}

TEST(ChatTemplateTest, ADefaultSystemMessageComesFromTheTemplate) {
  const auto chat = Template::Parse(
      "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
      "{{ '<|im_start|>system\\nYou are Q.<|im_end|>\\n' }}{% endif %}"
      "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({{{"user", "Hi"}}, true}),
            "<|im_start|>system\nYou are Q.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(*chat->Render({{{"system", "S"}, {"user", "Hi"}}, false}),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplateTest, RefusesConversationsThatNoTemplateCanRender) {
  const auto chat = Template::Parse("{% for m in messages %}{{ m.content }}{% endfor %}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->Render({{}, true}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto nameless = chat->Render({{{"user", "a"}, {"", "b"}}, true}).status();
  EXPECT_EQ(nameless.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(nameless.message(), "messages[1].role: is empty");
}

struct Refused {
  const char* source;
  const char* named;  // in the message
};
class RefusedTemplate : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTemplate, IsUnimplementedAndNamed) {
  const auto status = Template::Parse(GetParam().source).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << GetParam().source;
  EXPECT_NE(status.message().find(GetParam().named), absl::string_view::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedTemplate,
    testing::Values(
        Refused{"{{ bos_token }}", "bos_token"},
        Refused{"{% for m in messages %}{{ m['content'] | upper }}{% endfor %}", "upper"},
        Refused{"{% for m in messages %}{{ m['content'].strip() }}{% endfor %}", "strip"},
        Refused{"{% for m in messages %}{{ (m['role'] + m['content']) | trim }}{% endfor %}",
                "trim"},
        Refused{"{% for m in messages %}{{ m['name'] }}{% endfor %}", "name"},
        Refused{"{% for m in messages[1:] %}{{ m.content }}{% endfor %}", "messages"},
        Refused{"{% for m in messages if m.role %}{{ m.content }}{% endfor %}", "if m"},
        Refused{"{% for m in messages %}{% for n in messages %}{% endfor %}{% endfor %}", "for n"},
        Refused{"{% for m in messages %}{{ m.content }}{% else %}none{% endfor %}", "else"},
        Refused{"{% set x = 1 %}", "set x"}, Refused{"{% if tools %}{% endif %}", "tools"},
        Refused{"{% if add_generation_prompt %}{% set x = 1 %}{% endif %}", "set x"},
        Refused{"{{ raise_exception('no') }}", "raise_exception"},
        Refused{"{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{% endif %}", "m . role"},
        Refused{"{% if add_generation_prompt %}x", ""}, Refused{"{% endif %}", "endif"},
        Refused{"{{ loop.first }}", "loop"}, Refused{"{% raw %}{{ x }}{% endraw %}", "raw"},
        Refused{"{{ 'never closed", "string"}, Refused{"{{ 'closed' ", "tag"},
        Refused{"{{ '\\q' }}", "\\q"}, Refused{"{# never closed", "comment"}));

TEST(ChatTemplateTest, DeepNestingIsRefusedNotFollowed) {
  std::string source = "{% if ";
  source += std::string(100'000, '(');
  EXPECT_EQ(Template::Parse(source).status().code(), absl::StatusCode::kUnimplemented);
  source.clear();
  for (int i = 0; i < 10'000; ++i) source += "{% if add_generation_prompt %}";
  EXPECT_EQ(Template::Parse(source).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hydrant::engine::chat
