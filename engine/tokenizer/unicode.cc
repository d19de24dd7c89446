#include "engine/tokenizer/unicode.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <span>
#include <vector>

#include "engine/tokenizer/unicode_tables.inc"
#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

constexpr char32_t kHangulFirst = 0xAC00, kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailFirst = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

// From a character to characters. Value i is pool[ends[i - 1] … ends[i]).
struct Mapping {
  std::span<const uint32_t> keys;
  std::span<const uint16_t> ends;
  std::span<const uint32_t> pool;

  std::span<const uint32_t> Find(char32_t character) const {
    const auto found = std::lower_bound(keys.begin(), keys.end(), character);
    if (found == keys.end() || *found != character) return {};
    const size_t i = found - keys.begin();
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return pool.subspan(begin, ends[i] - begin);
  }
};

constexpr Mapping kCanonical{kCanonicalKeys, kCanonicalEnds, kCanonicalPool};
constexpr Mapping kCompatible{kCompatibleKeys, kCompatibleEnds, kCompatiblePool};
constexpr Mapping kLower{kLowerKeys, kLowerEnds, kLowerPool};
constexpr Mapping kUpper{kUpperKeys, kUpperEnds, kUpperPool};

void AppendMapped(const Mapping& mapping, char32_t character, std::string& out) {
  const std::span<const uint32_t> mapped = mapping.Find(character);
  if (mapped.empty()) return AppendUtf8(character, out);
  for (const uint32_t c : mapped) AppendUtf8(c, out);
}

size_t RangeOf(std::span<const uint32_t> starts, char32_t character) {
  return std::upper_bound(starts.begin(), starts.end(), character) - starts.begin() - 1;
}

uint8_t CombiningClass(char32_t character) {
  return character < 0x300 ? 0 : kClassValues[RangeOf(kClassStarts, character)];
}

struct Unit {
  char32_t character;
  uint8_t combining_class;
};

void Decompose(char32_t character, bool compatible, std::vector<Unit>& out) {
  const auto add = [&](char32_t c) { out.push_back({c, CombiningClass(c)}); };
  if (character < 0xA0) return out.push_back({character, 0});
  if (character >= kHangulFirst && character < kHangulFirst + kHangulCount) {
    const char32_t index = character - kHangulFirst;
    add(kLeadFirst + index / (kVowelCount * kTailCount));
    add(kVowelFirst + index / kTailCount % kVowelCount);
    if (index % kTailCount != 0) add(kTailFirst + index % kTailCount);
    return;
  }
  std::span<const uint32_t> parts;
  if (compatible) parts = kCompatible.Find(character);
  if (parts.empty()) parts = kCanonical.Find(character);
  if (parts.empty()) return add(character);
  for (const uint32_t part : parts) add(part);
}

// 0: they do not compose.
char32_t Composition(char32_t first, char32_t second) {
  if (first >= kLeadFirst && first < kLeadFirst + kLeadCount) {
    if (second < kVowelFirst || second >= kVowelFirst + kVowelCount) return 0;
    return kHangulFirst + ((first - kLeadFirst) * kVowelCount + second - kVowelFirst) * kTailCount;
  }
  if (first >= kHangulFirst && first < kHangulFirst + kHangulCount) {
    const bool open = (first - kHangulFirst) % kTailCount == 0;
    if (open && second > kTailFirst && second < kTailFirst + kTailCount) {
      return first + second - kTailFirst;
    }
    return 0;
  }
  size_t low = 0, high = std::size(kCompositions) / 3;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const uint32_t* triple = kCompositions + 3 * middle;
    if (triple[0] == first && triple[1] == second) return triple[2];
    if (triple[0] < first || (triple[0] == first && triple[1] < second)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return 0;
}

void Compose(std::vector<Unit>& units) {
  size_t starter = units.size();  // none yet
  size_t kept = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit unit = units[i];
    if (starter < kept) {
      // Blocked by what stands between, unless that has a lower class.
      const bool adjacent = starter + 1 == kept;
      const bool blocked = !adjacent && units[kept - 1].combining_class >= unit.combining_class;
      if (!blocked) {
        const char32_t composed = Composition(units[starter].character, unit.character);
        if (composed != 0) {
          units[starter].character = composed;
          continue;
        }
      }
    }
    if (unit.combining_class == 0) starter = kept;
    units[kept++] = unit;
  }
  units.resize(kept);
}

}  // namespace

void AppendLowerCase(char32_t character, std::string& out) { AppendMapped(kLower, character, out); }
void AppendUpperCase(char32_t character, std::string& out) { AppendMapped(kUpper, character, out); }

Category CategoryOf(char32_t character) {
  return static_cast<Category>(kCategoryValues[RangeOf(kCategoryStarts, character)]);
}

bool HasTrait(char32_t character, Trait trait) {
  return kTraitValues[RangeOf(kTraitStarts, character)] & trait;
}

namespace {

void AppendRange(uint32_t first, uint32_t last, std::string& members) {
  char range[48];
  std::snprintf(range, sizeof(range), "\\x{%x}-\\x{%x}", first, last);
  members += range;
}

}  // namespace

std::string NewerMembers(std::string_view property) {
  std::string members;
  for (size_t name = 0; name < std::size(kNewerNames); ++name) {
    if (kNewerNames[name] != property) continue;
    for (size_t i = name == 0 ? 0 : kNewerEnds[name - 1]; i < kNewerEnds[name]; i += 2) {
      AppendRange(kNewerRanges[i], kNewerRanges[i + 1], members);
    }
  }
  return members;
}

std::string ClassOfTrait(Trait trait) {
  std::string members;
  for (size_t i = 0; i < std::size(kTraitStarts); ++i) {
    if (!(kTraitValues[i] & trait)) continue;
    const uint32_t end = i + 1 < std::size(kTraitStarts) ? kTraitStarts[i + 1] : 0x110000;
    AppendRange(kTraitStarts[i], end - 1, members);
  }
  return members;
}

uint8_t ScriptOf(char32_t character) { return kScriptValues[RangeOf(kScriptStarts, character)]; }

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string ToNormalForm(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::string out;
  out.reserve(text.size());
  std::vector<Unit> units;
  // A character of class 0 that nothing before it composes with ends what is worked on; ASCII is
  // such, whatever follows.
  const auto flush = [&] {
    for (size_t i = 0; i < units.size();) {
      if (units[i].combining_class == 0) {
        ++i;
        continue;
      }
      size_t end = i;
      while (end < units.size() && units[end].combining_class != 0) ++end;
      std::stable_sort(units.begin() + i, units.begin() + end, [](const Unit& a, const Unit& b) {
        return a.combining_class < b.combining_class;
      });
      i = end;
    }
    if (compose) Compose(units);
    for (const Unit& unit : units) AppendUtf8(unit.character, out);
    units.clear();
  };
  while (!text.empty()) {
    size_t ascii = 0;
    while (ascii < text.size() && static_cast<unsigned char>(text[ascii]) < 0x80) ++ascii;
    if (ascii > 0) {
      flush();
      out += text.substr(0, ascii - 1);
      units.push_back({static_cast<char32_t>(text[ascii - 1]), 0});
      text.remove_prefix(ascii);
      continue;
    }
    const Utf8Sequence next = ReadUtf8(text);
    Decompose(next.character, compatible, units);
    text.remove_prefix(next.length);
  }
  flush();
  return out;
}

}  // namespace hydrant::engine
