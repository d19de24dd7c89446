// Chat templates: parsing, and rendering of a conversation.

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/chat/chat.h"

using namespace hydrant::engine::chat;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = Template::Parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!parsed.ok()) return 0;
  Conversation conversation;
  conversation.messages = {
      {"system", "Be brief."}, {"user", " Hi "}, {"assistant", "Yes?"}, {"user", "\xc3\xa9\n"}};
  (void)parsed->Render(conversation);
  return 0;
}
