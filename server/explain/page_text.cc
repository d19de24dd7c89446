#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/explain/held_shares.h"
#include "server/explain/html_text.h"
#include "server/explain/page_sections.h"

namespace hydrant::server {
namespace {

// A text longer than this is shown in a frame that scrolls.
constexpr int32_t kLongText = 1500;

void AppendLegend(int32_t pairs, std::string& out) {
  out += "<div class=\"legend\"><span>Held by</span><ol>";
  for (int shade = 0; shade <= kShades; ++shade) {
    const std::string label = shade == 0         ? "none"
                              : shade == kShades ? "all"
                                                 : absl::StrCat(100 * shade / kShades, "%");
    absl::StrAppend(&out, "<li class=\"s", shade, "\">", label, "</li>");
  }
  absl::StrAppend(&out, "</ol><span>of ", WithCommas(pairs),
                  " pairs of layer and KV head. Point at a token for its position and count.",
                  "</span></div>\n");
}

// Token `position` of the text; held by `count` of `pairs`, or never fed to the model (-1).
void AppendToken(const PageToken& token, int32_t position, int32_t count, int32_t pairs,
                 std::string& out) {
  const bool fed = count >= 0;
  absl::StrAppend(&out, "<span class=\"t s", fed ? Shade(static_cast<double>(count) / pairs) : 0,
                  token.special ? " special" : "", fed ? "" : " unfed", "\" title=\"",
                  WithCommas(position), ": ");
  if (fed) {
    absl::StrAppend(&out, WithCommas(count), " of ", WithCommas(pairs));
  } else {
    out += "the last token, never in the cache";
  }
  // What is only a part of a character has no sign of its own.
  absl::StrAppend(&out, "\">", token.text.empty() ? "<i>·</i>" : VisibleHtml(token.text),
                  "</span>");
}

}  // namespace

void AppendText(const Explanation& e, std::string& out) {
  const int32_t fed = FedTokens(e);
  const int32_t pairs = Pairs(e);
  const std::vector<int32_t> counts = PairsHolding(e.held, fed);
  absl::StrAppend(
      &out, "<section id=\"text\">\n<h2>The text, as the cache holds it</h2>\n<p class=\"soft\">",
      "Each token is shaded by the share of pairs of layer and KV head that still hold its key "
      "and ",
      "value, at the moment when the last token of the answer was chosen. What stands grey on ",
      "white is held by none: no attention can reach it any more.</p>\n");
  AppendLegend(pairs, out);
  absl::StrAppend(&out, "<div", fed > kLongText ? " class=\"long\" tabindex=\"0\"" : "", ">\n");
  int32_t position = 0;
  const auto append_part = [&](const char* name, const std::vector<PageToken>& tokens) {
    absl::StrAppend(&out, "<p class=\"part\">", name, ", ",
                    WithCommas(static_cast<int64_t>(tokens.size())), " tokens</p>\n",
                    "<p class=\"text\" dir=\"auto\">");
    for (const PageToken& token : tokens) {
      AppendToken(token, position, position < fed ? counts[position] : -1, pairs, out);
      ++position;
    }
    out += "</p>\n";
  };
  append_part("Prompt", e.prompt);
  append_part("Answer", e.answer);
  out += "</div>\n</section>\n";
}

}  // namespace hydrant::server
