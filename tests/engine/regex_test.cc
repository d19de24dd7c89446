#include "engine/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/tokenizer/utf8.h"

namespace hydrant::engine {
namespace {

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  std::vector<std::string> found;
  if (!regex.ok()) return found;
  regex->ForEachMatch(
      text, [&](size_t begin, size_t end) { found.push_back(text.substr(begin, end - begin)); });
  return found;
}

using Strings = std::vector<std::string>;

// Each of these differs between Oniguruma (whose result is expected) and plain PCRE2.
TEST(RegexTest, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(Matches(R"(\s)", "\u180e\u0085\u3000"), (Strings{"\u0085", "\u3000"}));
  EXPECT_EQ(Matches(R"([^\s])", "\u180e "), Strings{"\u180e"});
  EXPECT_EQ(Matches(R"(\w+)", "e\u0301\u203f-²"), (Strings{"e\u0301\u203f", "²"}));
  EXPECT_EQ(Matches(R"([\w]+)", "a²"), Strings{"a"});
  EXPECT_EQ(Matches(R"(\h+)", "fEg 0"), (Strings{"fE", "0"}));
  EXPECT_EQ(Matches(R"(^.|.$)", "ab\ncd"), (Strings{"a", "b", "c", "d"}));
  EXPECT_EQ(Matches(R"((?m:a.)|(?:b.))", "a\nb\nbc"), (Strings{"a\n", "bc"}));
  EXPECT_EQ(Matches(R"(a{,2}b)", "aaab"), Strings{"aab"});
  EXPECT_EQ(Matches(R"(\u0041\v)", "A\x0b"), Strings{"A\x0b"});
  EXPECT_EQ(Matches(R"(\p{Han})", "\u3001\u4e00"), Strings{"\u4e00"});
  EXPECT_EQ(Matches(R"(\bx\b)", "x \u0301x x"), (Strings{"x", "x"}));
  EXPECT_EQ(Matches(R"([a[bc]]+)", "xabcd"), Strings{"abc"});
  EXPECT_EQ(Matches(R"([^a[bc]]+)", "xabcd\n"), (Strings{"x", "d\n"}));
  EXPECT_EQ(Matches(R"([a[^a-d]]+)", "abxa"), (Strings{"a", "xa"}));
  EXPECT_EQ(Matches(R"([\p{L}&&[^a-z]]+)", "abCDé1"), Strings{"CDé"});
  EXPECT_EQ(Matches(R"([^a-z&&[a-c]]+)", "abdX"), Strings{"dX"}) << "negation is of all of it";
  EXPECT_EQ(Matches(R"([[:punct:]])", "a+€."), (Strings{"+", "€", "."}));
}

// Of Unicode 15 and 16: an ideograph (U+2EBF0), a digit (U+10D40), a mark (U+0897), an emoji
// (U+1FAE8). U+137FA is of Unicode 16, U+1343A a newer format control.
TEST(RegexTest, KnowsTheCharactersThatOnigurumaKnows) {
  const std::string text = "a\U0002EBF0\U00010D40\u0897\U0001FAE8";
  EXPECT_EQ(Matches(R"(\p{L}+)", text), Strings{"a\U0002EBF0"});
  EXPECT_EQ(Matches(R"(\P{L}+)", text), Strings{"\U00010D40\u0897\U0001FAE8"});
  EXPECT_EQ(Matches(R"(\p{^L}+)", text), Strings{"\U00010D40\u0897\U0001FAE8"});
  EXPECT_EQ(Matches(R"([^\s\p{L}\p{N}]+)", text), Strings{"\u0897\U0001FAE8"});
  EXPECT_EQ(Matches(R"([\P{L}a]+)", text), (Strings{"a", "\U00010D40\u0897\U0001FAE8"}));
  EXPECT_EQ(Matches(R"([^\P{L}a]+)", text), Strings{"\U0002EBF0"});
  EXPECT_EQ(Matches(R"(\d|[\d])", text), Strings{"\U00010D40"});
  EXPECT_EQ(Matches(R"([\D]+)", "1a\U00010D40"), Strings{"a"});
  EXPECT_EQ(Matches(R"(\w+)", text), Strings{"a\U0002EBF0\U00010D40\u0897"});
  EXPECT_EQ(Matches(R"(\p{Han})", text), Strings{"\U0002EBF0"});
  EXPECT_EQ(Matches(R"(\p{C}+)", "a\U000137FA\x01\U0001343A\u0378"),
            (Strings{"\x01\U0001343A\u0378"}));
  EXPECT_EQ(Matches(R"([\p{Cn}]+)", "\U0001343A\u0378"), Strings{"\u0378"});
  EXPECT_EQ(Matches(R"([\P{Cn}]+)", "\u0378\U0001343A"), Strings{"\U0001343A"});
}

TEST(RegexTest, EmptyMatchesAreReportedOnceAndNotAfterAMatch) {
  EXPECT_EQ(Matches("x*", "axxb"), (Strings{"", "xx", ""}));
  EXPECT_EQ(Matches("", "é"), (Strings{"", ""}));
}

TEST(RegexTest, WhatCannotBeSaidIsRefused) {
  for (const std::string pattern : {"(?~a)", "a{2}+", "a(?i)b|c", "(?s:a)", R"([\W])", R"(a\Kb)"}) {
    const auto status = Regex::Compile(pattern).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << pattern << status;
    EXPECT_NE(status.message().find(pattern), absl::string_view::npos) << status;
  }
  for (const std::string pattern : {"(", "a)", "[a", "\\", "*", "\\p{Nonsense}", "\xff"}) {
    EXPECT_EQ(Regex::Compile(pattern).status().code(), absl::StatusCode::kInvalidArgument)
        << pattern;
  }
}

TEST(RegexTest, DeepBacktrackingEnds) {
  const std::string text(100'000, 'a');
  EXPECT_EQ(Matches("(?:a|b)+", text), Strings{text});
  EXPECT_EQ(Matches("(?:a|a)+c", std::string(40, 'a')), Strings{});  // 2^40 ways
}

TEST(Utf8Test, BrokenPartsBecomeOneReplacementEach) {
  EXPECT_EQ(ToValidUtf8("a\xf0\x9f\x99z"), "a\uFFFDz");
  EXPECT_EQ(ToValidUtf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(ToValidUtf8("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(ToValidUtf8("\xf5\x80"), "\uFFFD\uFFFD");            // beyond Unicode
  EXPECT_EQ(ToValidUtf8("é\xe6\x9d"), "é\uFFFD");
  EXPECT_TRUE(IsValidUtf8("é東🙂"));
  EXPECT_FALSE(IsValidUtf8("\x80"));
}

TEST(Utf8Test, AppendedCharactersAreReadBack) {
  for (const char32_t character : {0x0, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff}) {
    std::string text;
    AppendUtf8(character, text);
    const Utf8Sequence read = ReadUtf8(text);
    EXPECT_EQ(read.kind, Utf8Sequence::kCharacter);
    EXPECT_EQ(read.character, character);
    EXPECT_EQ(read.length, text.size());
    EXPECT_EQ(Utf8Length(text[0]), text.size());
  }
}

}  // namespace
}  // namespace hydrant::engine
