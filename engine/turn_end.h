// The token that ends a chat model's turn, which need not be the one that its configuration calls
// the end of a text (<|im_end|>, <end_of_turn>, <|eot_id|> …). No list of names: the template says.

#ifndef HYDRANT_ENGINE_TURN_END_H_
#define HYDRANT_ENGINE_TURN_END_H_

#include <cstdint>
#include <optional>

#include "engine/chat/chat.h"
#include "engine/tokenizer/tokenizer.h"

namespace hydrant::engine {

// The special token that `chat_template` writes after the content of an assistant's message, white
// space between them aside; nullopt where it writes none, or renders no such conversation.
std::optional<int32_t> EndOfTurn(const chat::Template& chat_template, const Tokenizer& tokenizer);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TURN_END_H_
