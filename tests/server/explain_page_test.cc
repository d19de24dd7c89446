// The page of `hydrant explain`: shares, shades, escaping and what the HTML says.

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "server/explain/held_shares.h"
#include "server/explain/html_text.h"
#include "server/explain/page.h"
#include "server/explain/page_sections.h"

namespace hydrant::server {
namespace {

// 2 layers of 2 heads over 5 positions, 3 held by each.
engine::HeldTokens SmallHeld() {
  return {2, 2, 3, {0, 3, 4, 0, 2, 4, /* layer 1 */ 0, 3, 4, 1, 3, 4}};
}

Explanation SmallExplanation() {
  Explanation e;
  e.model = "tiny <model>";
  e.weight_dtype = "f32";
  e.kv_dtype = "bf16";
  e.kv_bytes_per_token = 1024;
  e.eviction.policy = engine::EvictionPolicyKind::kH2O;
  e.eviction.budget_tokens = 2;
  e.eviction.heavy_tokens = 1;
  e.eviction.recent_tokens = 1;
  e.prompt = {{1, "<|x|>", true}, {2, "a", false}, {3, "", false}, {4, "é", false}};
  e.answer = {{5, " b", false}, {6, "\n", false}};
  e.full_answer = {{5, " b", false}, {7, " & c", false}, {8, "!", false}};
  e.held = SmallHeld();
  e.usage.prompt_tokens = 4;
  e.usage.completion_tokens = 2;
  e.usage.evicted_tokens = 2;
  e.usage.recall = engine::Recall{0.75, 0.5, 3, true, {0.5, 1.0}};
  return e;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HeldSharesTest, CountPairsOfEachPosition) {
  EXPECT_EQ(PairsHolding(SmallHeld(), 5), (std::vector<int32_t>{3, 1, 1, 3, 4}));
}

TEST(HeldSharesTest, BinsAreMeansOverHeadsAndTokens) {
  const HeatMap each = BinHeld(SmallHeld(), 5, 8);
  EXPECT_EQ(each.columns, 5);
  EXPECT_EQ(each.shares, (std::vector<double>{1, 0, .5, .5, 1, .5, .5, 0, 1, 1}));
  // Columns of 2, 2 and 1 tokens.
  const HeatMap binned = BinHeld(SmallHeld(), 5, 3);
  EXPECT_EQ(binned.tokens_per_column, 2);
  EXPECT_EQ(binned.columns, 3);
  EXPECT_EQ(binned.shares, (std::vector<double>{.5, .5, 1, .5, .5, 1}));
}

TEST(HeldSharesTest, ALongTextHasNoMoreColumnsThanAskedFor) {
  const engine::HeldTokens held = {1, 1, 1, {9999}};
  for (int32_t columns : {1, 7, 160, 9999, 10000, 20000}) {
    const HeatMap map = BinHeld(held, 10000, columns);
    EXPECT_LE(map.columns, columns);
    EXPECT_GE(map.columns * map.tokens_per_column, 10000);
    EXPECT_GT(map.shares.back(), 0);
  }
}

TEST(HeldSharesTest, NoneAndAllHaveShadesOfTheirOwn) {
  EXPECT_EQ(Shade(0), 0);
  EXPECT_EQ(Shade(0.001), 1);
  EXPECT_EQ(Shade(0.5), 5);
  EXPECT_EQ(Shade(0.999), 9);
  EXPECT_EQ(Shade(1), 10);
}

TEST(HtmlTextTest, EscapesWhatHtmlReads) {
  EXPECT_EQ(EscapeHtml("<b a=\"1\">&amp;"), "&lt;b a=&quot;1&quot;&gt;&amp;amp;");
  EXPECT_EQ(VisibleHtml("</span>"), "&lt;/span&gt;");
  EXPECT_EQ(EscapeHtml("日本 é 😀"), "日本 é 😀");
}

TEST(HtmlTextTest, ShowsControlCharacters) {
  EXPECT_EQ(VisibleHtml("a\n\n"), "a<i>↵</i>\n<i>↵</i>\n");
  EXPECT_EQ(VisibleHtml(std::string("\0\x1b\x7f", 3)), "<i>␀</i><i>␛</i><i>␡</i>");
  EXPECT_EQ(VisibleHtml("\t"), "\t");
  EXPECT_EQ(EscapeHtml("a\x01\n"), "a\xEF\xBF\xBD\n");
  EXPECT_EQ(VisibleHtml("\xC2\x85\xEF\xBF\xBE"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(HtmlTextTest, BrokenUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(EscapeHtml("a\xFF<\xE2\x82"), "a\xEF\xBF\xBD&lt;\xEF\xBF\xBD");
}

TEST(PageTest, EachTokenIsShadedAndTold) {
  const std::string page = MakePage(SmallExplanation());
  EXPECT_EQ(Count(page, "<span class=\"t "), 6);
  EXPECT_TRUE(Has(page, "<span class=\"t s8 special\" title=\"0: 3 of 4\">&lt;|x|&gt;</span>"));
  EXPECT_TRUE(Has(page, "<span class=\"t s3\" title=\"1: 1 of 4\">a</span>"));
  EXPECT_TRUE(Has(page, "<span class=\"t s3\" title=\"2: 1 of 4\"><i>·</i></span>"));
  EXPECT_TRUE(Has(page, "<span class=\"t s10\" title=\"4: 4 of 4\"> b</span>"));
  EXPECT_TRUE(Has(page, "unfed\" title=\"5: the last token, never in the cache\"><i>↵</i>\n<"));
}

// The shade of each column, layer by layer.
std::vector<std::vector<int>> ShadesOfMap(const std::string& page) {
  std::vector<std::vector<int>> shades;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("<g ", 0) != 0) continue;
    std::vector<int>& row = shades.emplace_back();
    for (size_t at = 0; (at = line.find("<rect ", at)) != std::string::npos; ++at) {
      unsigned x = 0, width = 0;
      int shade = 0;
      EXPECT_EQ(
          std::sscanf(line.c_str() + at, R"(<rect x="%u" width="%u" height="1" class="s%d"/>)", &x,
                      &width, &shade),
          3);
      EXPECT_EQ(x, row.size());
      row.insert(row.end(), width, shade);
    }
  }
  return shades;
}

TEST(PageTest, TheMapTilesEveryLayer) {
  EXPECT_EQ(ShadesOfMap(MakePage(SmallExplanation())),
            (std::vector<std::vector<int>>{{10, 0, 5, 5, 10}, {5, 5, 0, 10, 10}}));
}

TEST(PageTest, SaysWhatWasAppliedAndLost) {
  const std::string page = MakePage(SmallExplanation());
  EXPECT_TRUE(Has(page, "<html lang=\"en\">"));
  EXPECT_TRUE(Has(page, "<title>What H2O kept: tiny &lt;model&gt;</title>"));
  EXPECT_TRUE(Has(page, "1 heavy + 1 recent"));
  EXPECT_TRUE(Has(page, "75.0&nbsp;%"));
  EXPECT_TRUE(Has(page, "5th percentile 50.0&nbsp;%, over 3 steps"));
  EXPECT_TRUE(Has(page, "width:50.00%"));
  EXPECT_TRUE(Has(page, "--mean:75.00%"));
  EXPECT_TRUE(Has(page, "3.0 KiB"));  // 3 of 5 tokens held
  EXPECT_TRUE(Has(page, "5.0 KiB"));
}

TEST(PageTest, MarksTheFirstDifference) {
  const std::string page = MakePage(SmallExplanation());
  EXPECT_EQ(Count(page, "<mark"), 2);
  EXPECT_TRUE(Has(page,
                  "<span class=\"same\"> b</span><mark title=\"the first difference, token "
                  "2\"> &amp; c</mark>!</p>"));
  EXPECT_TRUE(Has(page, "token 2\"><i>↵</i>\n</mark></p>"));
}

TEST(PageTest, MarksWhereOneAnswerEnds) {
  Explanation e = SmallExplanation();
  e.full_answer = {e.answer[0]};
  EXPECT_EQ(FirstDifference(e.answer, e.full_answer), 1u);
  EXPECT_TRUE(Has(MakePage(e), "token 2\"> (ends here)</mark></p>"));
}

TEST(PageTest, ACharacterOfSeveralTokensIsMarkedWhole) {
  Explanation e = SmallExplanation();
  e.full_answer = {e.answer[0], {9, "", false}, {10, "é", false}, {11, "x", false}};
  EXPECT_TRUE(Has(MakePage(e), "token 2\">é</mark>x</p>"));
}

TEST(PageTest, EqualAnswersAreNotMarked) {
  Explanation e = SmallExplanation();
  e.full_answer = e.answer;
  const std::string page = MakePage(e);
  EXPECT_EQ(Count(page, "<mark"), 0);
  EXPECT_TRUE(Has(page, "token for token"));
}

TEST(PageTest, RecallThatIsNotKnownIsNotDrawn) {
  Explanation e = SmallExplanation();
  e.usage.recall.reset();
  EXPECT_TRUE(Has(MakePage(e), "Recall was not measured."));
  e.usage.recall = engine::Recall{0, 0, 0, false, {}};
  EXPECT_TRUE(Has(MakePage(e), "the memory for audits was too small"));
  e.usage.recall = engine::Recall{.5, .5, 3, false, {.5, .5}};
  EXPECT_TRUE(Has(MakePage(e), "the memory for audits was full after 3 steps"));
}

// Nothing that a browser would fetch or run.
TEST(PageTest, IsSelfContained) {
  const std::string page = MakePage(SmallExplanation());
  for (const char* part : {"<script", "http:", "https:", "src=", "url(", "@import", "<link"}) {
    EXPECT_FALSE(Has(page, part)) << part;
  }
  EXPECT_TRUE(Has(page, "default-src 'none'"));
}

TEST(PageTest, ALongTextStaysSmall) {
  Explanation e = SmallExplanation();
  e.prompt.assign(8000, {1, "word ", false});
  e.held = {40, 8, 2000, {}};
  for (int32_t pair = 0; pair < 320; ++pair) {
    for (int32_t i = 0; i < 2000; ++i) e.held.positions.push_back(i * 4 + pair % 4);
  }
  const std::string page = MakePage(e);
  EXPECT_EQ(Count(page, "<span class=\"t "), 8002);
  EXPECT_LT(page.size(), 8002 * 80 + 400'000);
  EXPECT_LE(Count(page, "<rect "), 160 * 40);
}

TEST(PageTest, WritesNumbersToBeRead) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
  EXPECT_EQ(WithCommas(-1000), "-1,000");
}

}  // namespace
}  // namespace hydrant::server
