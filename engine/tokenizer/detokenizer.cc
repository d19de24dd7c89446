#include "engine/tokenizer/tokenizer.h"

namespace hydrant::engine {

IncrementalDetokenizer::IncrementalDetokenizer(const Tokenizer& tokenizer, bool skip_special_tokens)
    : stream_(tokenizer.StartDecoding(skip_special_tokens)) {}

IncrementalDetokenizer::~IncrementalDetokenizer() = default;
IncrementalDetokenizer::IncrementalDetokenizer(IncrementalDetokenizer&&) noexcept = default;

std::string IncrementalDetokenizer::Add(int32_t id) { return stream_->Add(id); }

std::string IncrementalDetokenizer::Flush() { return stream_->Flush(); }

}  // namespace hydrant::engine
