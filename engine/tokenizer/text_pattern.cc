#include "engine/tokenizer/text_pattern.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant::engine {

TextPattern::TextPattern(std::variant<std::string, Regex> pattern) : pattern_(std::move(pattern)) {}

TextPattern TextPattern::Literal(std::string text) { return TextPattern(std::move(text)); }

absl::StatusOr<TextPattern> TextPattern::Regexp(std::string_view pattern) {
  absl::StatusOr<Regex> regex = Regex::Compile(pattern);
  if (!regex.ok()) return regex.status();
  return TextPattern(*std::move(regex));
}

absl::StatusOr<TextPattern> TextPattern::FromJson(const JsonNode& json) {
  if (json.Find("String")) {
    absl::StatusOr<std::string> text = json.String("String");
    if (!text.ok()) return text.status();
    return Literal(*std::move(text));
  }
  if (!json.Find("Regex")) return json.Invalid("neither a \"String\" nor a \"Regex\"");
  const absl::StatusOr<std::string> pattern = json.String("Regex");
  if (!pattern.ok()) return pattern.status();
  absl::StatusOr<TextPattern> compiled = Regexp(*pattern);
  if (!compiled.ok()) {
    const std::string why(compiled.status().message());
    return absl::IsUnimplemented(compiled.status())
               ? absl::UnimplementedError(json.Invalid(why).message())
               : json.Invalid(why);
  }
  return compiled;
}

std::vector<TextRange> TextPattern::FindAll(std::string_view text) const {
  std::vector<TextRange> matches;
  if (const auto* literal = std::get_if<std::string>(&pattern_)) {
    if (literal->empty()) return matches;
    for (size_t at = text.find(*literal); at != std::string_view::npos;
         at = text.find(*literal, at + literal->size())) {
      matches.push_back({at, at + literal->size()});
    }
    return matches;
  }
  std::get<Regex>(pattern_).ForEachMatch(text, [&](size_t begin, size_t end) {
    matches.push_back({begin, end});
  });
  return matches;
}

std::string TextPattern::ReplaceAll(std::string_view text, std::string_view with) const {
  std::string out;
  size_t at = 0;
  for (const TextRange& match : FindAll(text)) {
    out += text.substr(at, match.begin - at);
    out += with;
    at = match.end;
  }
  out += text.substr(at);
  return out;
}

absl::StatusOr<SplitBehavior> SplitBehaviorFromJson(const JsonNode& json, std::string_view key) {
  const absl::StatusOr<std::string> name = json.String(key);
  if (!name.ok()) return name.status();
  if (*name == "Removed") return SplitBehavior::kRemoved;
  if (*name == "Isolated") return SplitBehavior::kIsolated;
  if (*name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (*name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (*name == "Contiguous") return SplitBehavior::kContiguous;
  return json.Unsupported(absl::StrCat("behavior \"", *name, "\""));
}

std::vector<TextRange> SplitAtMatches(size_t size, const std::vector<TextRange>& matches,
                                      SplitBehavior behavior, bool invert) {
  struct Part {
    TextRange range;
    bool is_match;
  };
  std::vector<Part> parts;
  parts.reserve(2 * matches.size() + 1);
  size_t at = 0;
  for (const TextRange& match : matches) {
    if (at != match.begin) parts.push_back({{at, match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  }
  if (at != size) parts.push_back({{at, size}, invert});

  std::vector<TextRange> pieces;
  pieces.reserve(parts.size());
  bool previous_is_match = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_match) pieces.push_back(part.range);
      }
      break;
    case SplitBehavior::kIsolated:
      for (const Part& part : parts) pieces.push_back(part.range);
      break;
    case SplitBehavior::kMergedWithPrevious:
    case SplitBehavior::kContiguous:
      for (const Part& part : parts) {
        const bool merge = behavior == SplitBehavior::kContiguous
                               ? part.is_match == previous_is_match
                               : part.is_match && !previous_is_match;
        if (merge && !pieces.empty()) {
          pieces.back().end = part.range.end;
        } else {
          pieces.push_back(part.range);
        }
        previous_is_match = part.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->is_match && !previous_is_match && !pieces.empty()) {
          pieces.back().begin = part->range.begin;
        } else {
          pieces.push_back(part->range);
        }
        previous_is_match = part->is_match;
      }
      std::reverse(pieces.begin(), pieces.end());
      break;
  }
  std::erase_if(pieces, [](const TextRange& piece) { return piece.begin == piece.end; });
  return pieces;
}

}  // namespace hydrant::engine
