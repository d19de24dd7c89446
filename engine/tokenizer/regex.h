// A regular expression in the dialect of Hugging Face tokenizers (Oniguruma with Ruby's syntax over
// Unicode), matched by PCRE2. Immutable after construction; usable from several threads.

#ifndef HYDRANT_ENGINE_TOKENIZER_REGEX_H_
#define HYDRANT_ENGINE_TOKENIZER_REGEX_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant::engine {

class Regex {
 public:
  // INVALID_ARGUMENT with the pattern, the place in it and the reason; UNIMPLEMENTED where the
  // dialect has what cannot be said in PCRE2.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Calls `on_match` with begin and end of each match from left to right, none overlapping; empty
  // ones too, except directly after a match. `text` must be valid UTF-8. A pattern that exhausts
  // PCRE2's memory on this text ends the search there: the rest counts as not matching.
  void ForEachMatch(std::string_view text,
                    const std::function<void(size_t, size_t)>& on_match) const;

 private:
  struct Code;
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// The same expression in PCRE2's syntax (flags: UTF, UCP, MULTILINE). Exposed for its test.
absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern);

}  // namespace hydrant::engine

#endif  // HYDRANT_ENGINE_TOKENIZER_REGEX_H_
