#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/explain/html_text.h"
#include "server/explain/page_sections.h"

namespace hydrant::server {
namespace {

std::string TokenHtml(const PageToken& token) {
  std::string text = VisibleHtml(token.text);
  return token.special && !text.empty() ? absl::StrCat("<span class=\"special\">", text, "</span>")
                                        : text;
}

void AppendAnswer(const std::string& title, const std::vector<PageToken>& tokens,
                  std::optional<size_t> difference, std::string& out) {
  absl::StrAppend(&out, "<div>\n<h3>", title, "</h3>\n<p class=\"answer\" dir=\"auto\">");
  const size_t same = std::min(difference.value_or(tokens.size()), tokens.size());
  out += difference ? "<span class=\"same\">" : "<span>";
  for (size_t i = 0; i < same; ++i) out += TokenHtml(tokens[i]);
  out += "</span>";
  if (difference) {
    // The text of a token that is a part of a character comes with a later one.
    size_t rest = same;
    std::string first;
    while (rest < tokens.size() && first.empty()) first += TokenHtml(tokens[rest++]);
    absl::StrAppend(&out, "<mark title=\"the first difference, token ", WithCommas(*difference + 1),
                    "\">", first.empty() ? " (ends here)" : first, "</mark>");
    for (; rest < tokens.size(); ++rest) out += TokenHtml(tokens[rest]);
  }
  out += "</p>\n</div>\n";
}

}  // namespace

std::optional<size_t> FirstDifference(const std::vector<PageToken>& a,
                                      const std::vector<PageToken>& b) {
  const auto [in_a, in_b] =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end(),
                    [](const PageToken& x, const PageToken& y) { return x.id == y.id; });
  if (in_a == a.end() && in_b == b.end()) return std::nullopt;
  return static_cast<size_t>(in_a - a.begin());
}

void AppendAnswers(const Explanation& e, std::string& out) {
  const std::optional<size_t> difference = FirstDifference(e.answer, e.full_answer);
  out +=
      "<section id=\"answers\">\n<h2>The answer, beside the full cache’s</h2>\n<p class=\"soft\">";
  if (difference) {
    absl::StrAppend(&out, "The same for ", WithCommas(static_cast<int64_t>(*difference)),
                    *difference == 1 ? " token" : " tokens", ", then the marked ones differ.");
  } else {
    out += "Both are the same, token for token.";
  }
  if (e.usage.evicted_tokens == 0) out += " Nothing was evicted, so nothing could differ.";
  out += "</p>\n<div class=\"pair\">\n";
  AppendAnswer("FULL: every token kept", e.full_answer, difference, out);
  const std::string policy(PolicyName(e.eviction.policy));
  AppendAnswer(e.eviction.policy == engine::EvictionPolicyKind::kFull
                   ? policy
                   : absl::StrCat(policy, ": ", WithCommas(e.eviction.budget_tokens), " of ",
                                  WithCommas(FedTokens(e)), " tokens kept"),
               e.answer, difference, out);
  out += "</div>\n</section>\n";
}

}  // namespace hydrant::server
