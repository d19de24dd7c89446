#include "engine/turn_end.h"

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant::engine {
namespace {

// A word that no template writes by itself.
constexpr std::string_view kContent = "Qyzzyx";

}  // namespace

std::optional<int32_t> EndOfTurn(const chat::Template& chat_template, const Tokenizer& tokenizer) {
  chat::Conversation conversation;
  conversation.messages = {{"user", "Hi"}, {"assistant", std::string(kContent)}};
  conversation.add_generation_prompt = false;
  const absl::StatusOr<std::string> rendered = chat_template.Render(conversation);
  if (!rendered.ok()) return std::nullopt;
  const size_t content = rendered->rfind(kContent);
  if (content == std::string::npos) return std::nullopt;
  const std::string_view rest = std::string_view(*rendered).substr(content + kContent.size());
  for (const int32_t id : tokenizer.Encode(rest, /*add_special_tokens=*/false)) {
    if (tokenizer.IsSpecial(id)) return id;
    if (tokenizer.TokenText(id).find_first_not_of(" \t\r\n") != std::string::npos) break;
  }
  return std::nullopt;
}

}  // namespace hydrant::engine
