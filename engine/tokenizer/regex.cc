#include "engine/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

template <auto Function>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    Function(pointer);
  }
};

using CompiledCode = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;

// Patterns come with checkpoints: time is bounded by the length of the text for every one in use,
// and this stops what would run for ever on a hostile one.
constexpr uint32_t kMatchLimit = 100'000'000;

}  // namespace

struct Regex::Code {
  CompiledCode compiled;
  MatchContext context;
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  const auto fail = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression '", absl::string_view(pattern.data(), pattern.size()),
                     "': ", absl::string_view(why.data(), why.size())));
  };
  if (!IsValidUtf8(pattern)) return fail("not UTF-8");
  absl::StatusOr<std::string> translated = OnigurumaToPcre2(pattern);
  if (!translated.ok()) return translated.status();

  const CompileContext compile_context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(compile_context.get(), PCRE2_NEWLINE_LF);
  int error;
  PCRE2_SIZE where;
  auto code = std::make_unique<Code>();
  code->compiled.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_UTF_CHECK,
      &error, &where, compile_context.get()));
  if (!code->compiled) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    return fail(absl::StrCat(reinterpret_cast<const char*>(message), " at byte ", where));
  }
  // Without JIT (a machine that has none) the interpreter matches the same.
  pcre2_jit_compile(code->compiled.get(), PCRE2_JIT_COMPLETE);
  code->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(code->context.get(), kMatchLimit);
  return Regex(std::move(code));
}

void Regex::ForEachMatch(std::string_view text,
                         const std::function<void(size_t, size_t)>& on_match) const {
  const MatchData data(pcre2_match_data_create_from_pattern(code_->compiled.get(), nullptr));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t at = 0;
  size_t last_end = std::string_view::npos;
  while (at <= text.size()) {
    int rc = pcre2_match(code_->compiled.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK,
                         data.get(), code_->context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
      rc = pcre2_match(code_->compiled.get(), subject, text.size(), at,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), code_->context.get());
    }
    if (rc < 0) return;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
    const size_t begin = span[0], end = span[1];
    if (begin == end) {
      if (begin != last_end) on_match(begin, end);
      if (end >= text.size()) return;
      at = end + Utf8Length(text[end]);
    } else {
      on_match(begin, end);
      at = end;
    }
    last_end = end;
  }
}

}  // namespace hydrant::engine
