// The chat templates of a checkpoint, by name. Most have one, "default"; some have another for
// conversations with tools, "tool_use", or more.
//
// A Hugging Face directory has them as chat_template.jinja and
// additional_chat_templates/NAME.jinja, or in tokenizer_config.json under chat_template: a string,
// or a list of {name, template}. GGUF has tokenizer.chat_template, and tokenizer.chat_template.NAME
// for each NAME in tokenizer.chat_templates.

#ifndef HYDRANT_ENGINE_WEIGHTS_CHAT_TEMPLATES_H_
#define HYDRANT_ENGINE_WEIGHTS_CHAT_TEMPLATES_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace hydrant::engine::weights {

class GgufFile;

inline constexpr char kDefaultTemplate[] = "default";

using ChatTemplates = std::map<std::string, std::string, std::less<>>;  // name -> Jinja source

// Empty when there are none. Errors name the file or key that is not as above.
absl::StatusOr<ChatTemplates> ReadChatTemplates(const std::string& directory);
absl::StatusOr<ChatTemplates> ReadChatTemplates(const GgufFile& file);

}  // namespace hydrant::engine::weights

#endif  // HYDRANT_ENGINE_WEIGHTS_CHAT_TEMPLATES_H_
