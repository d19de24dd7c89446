#include "engine/weights/hf_tensor_names.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

namespace hydrant::engine::weights {
namespace {

constexpr std::string_view kHead = "lm_head.";
constexpr std::string_view kHeads[] = {kHead, "embed_out."};
// How names of base models start: the parts that each has.
constexpr std::string_view kParts[] = {"layers.", "decoder."};
constexpr std::string_view kBase = "model.";
// Before transformers 4.52 and in what it saves; and the names of its modules since then.
constexpr std::string_view kOuter = "language_model.";
constexpr std::string_view kInner = "model.language_model.";

// The name within the language model.
std::optional<std::string> OfLanguageModel(std::string_view saved) {
  if (saved.starts_with(kOuter)) return std::string(saved.substr(kOuter.size()));
  if (saved.starts_with(kHead)) return std::string(saved);
  if (!saved.starts_with(kInner)) return std::nullopt;
  saved.remove_prefix(kInner.size());
  return absl::StrCat(std::string(kBase), std::string(saved));
}

bool StartsWithOneOf(std::string_view name, std::span<const std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return name.starts_with(start); });
}

}  // namespace

HfTensorNames::HfTensorNames(std::string_view base, const std::vector<std::string_view>& saved)
    : base_(base) {
  bool has_base = false, has_parts = false;
  for (const std::string_view name : saved) {
    has_language_ = has_language_ || name.starts_with(kOuter) || name.starts_with(kInner);
    has_base = has_base || name.starts_with(base);
    has_parts = has_parts || StartsWithOneOf(name, kParts);
  }
  lacks_base_ = has_parts && !has_base;
}

std::optional<std::string> HfTensorNames::Map(std::string_view saved) const {
  if (has_language_) return OfLanguageModel(saved);
  if (!lacks_base_ || StartsWithOneOf(saved, kHeads)) return std::string(saved);
  return absl::StrCat(std::string(base_), std::string(saved));
}

}  // namespace hydrant::engine::weights
