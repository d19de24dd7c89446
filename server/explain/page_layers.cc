#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/explain/held_shares.h"
#include "server/explain/page_sections.h"

namespace hydrant::server {
namespace {

// Columns of the heat map at the most; a longer text has more tokens in each.
constexpr int32_t kMaxColumns = 160;

int RowPixels(int32_t layers) { return layers <= 16 ? 22 : layers <= 40 ? 16 : 12; }

// One rectangle for each run of columns of the same shade.
void AppendCells(const HeatMap& map, int32_t layers, std::string& out) {
  absl::StrAppend(
      &out, "<svg viewBox=\"0 0 ", map.columns, " ", layers,
      "\" preserveAspectRatio=\"none\" shape-rendering=\"crispEdges\" role=\"img\" ",
      "aria-label=\"Share of KV heads that hold each stretch of the text, by layer\">\n");
  for (int32_t layer = 0; layer < layers; ++layer) {
    absl::StrAppend(&out, "<g transform=\"translate(0,", layer, ")\"><title>layer ", layer,
                    "</title>");
    const double* shares = map.shares.data() + static_cast<size_t>(layer) * map.columns;
    for (int32_t first = 0, end = 0; first < map.columns; first = end) {
      const int shade = Shade(shares[first]);
      while (end < map.columns && Shade(shares[end]) == shade) ++end;
      absl::StrAppend(&out, "<rect x=\"", first, "\" width=\"", end - first,
                      "\" height=\"1\" class=\"s", shade, "\"/>");
    }
    out += "</g>\n";
  }
  out += "</svg>\n";
}

std::string LeftAt(double share) { return absl::StrFormat("left:%.2f%%", 100 * share); }

// Ticks at round positions, eight at the most, and the last one's own.
void AppendAxis(int32_t tokens, int32_t shown, std::string& out) {
  int32_t step = 1;
  for (int i = 0; tokens / step > 8; ++i) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  out += "<div></div><div class=\"axis\">";
  for (int32_t at = 0; at < tokens; at += step) {
    absl::StrAppend(&out, "<span style=\"", LeftAt(static_cast<double>(at) / shown), "\">",
                    WithCommas(at), "</span>");
  }
  out += "</div><div class=\"axis\"></div>\n";
}

void AppendRecall(const engine::Recall& recall, std::string& out) {
  out += "<div class=\"recall\"><ol>";
  for (size_t layer = 0; layer < recall.layer_means.size(); ++layer) {
    absl::StrAppend(&out, "<li title=\"layer ", layer, "\"><span class=\"track\"><b style=\"",
                    absl::StrFormat("width:%.2f%%", 100 * recall.layer_means[layer]),
                    "\"></b></span><span>", Percent(recall.layer_means[layer]), "</span></li>");
  }
  absl::StrAppend(&out, "</ol><div class=\"mean\" style=\"--mean:",
                  absl::StrFormat("%.2f%%", 100 * recall.mean), "\"></div></div>\n");
}

std::string RecallHead(const engine::Usage& usage) {
  if (!usage.recall) return "Recall was not measured.";
  const engine::Recall& recall = *usage.recall;
  if (recall.steps == 0) {
    return recall.complete ? "Recall: nothing was ever missing."
                           : "Recall was not measured: the memory for audits was too small.";
  }
  return absl::StrCat("<b>Recall</b>, the line is its mean",
                      recall.complete ? "" : "; the memory for audits was full after ",
                      recall.complete ? "" : WithCommas(recall.steps) + " steps");
}

}  // namespace

void AppendLayers(const Explanation& e, std::string& out) {
  const int32_t fed = FedTokens(e);
  const int32_t layers = e.held.layers;
  const HeatMap map = BinHeld(e.held, fed, kMaxColumns);
  const int32_t shown = map.columns * map.tokens_per_column;
  const std::string split =
      absl::StrFormat("%.2f%%", 100.0 * static_cast<double>(e.prompt.size()) / shown);
  absl::StrAppend(
      &out, "<section id=\"layers\">\n<h2>Layer by layer</h2>\n<p class=\"soft\">",
      "Each row is a layer, the first on top; each column ",
      map.tokens_per_column == 1 ? std::string("is one token")
                                 : absl::StrCat("stands for ", map.tokens_per_column, " tokens"),
      ", shaded as above. Recall is the share of the full cache’s attention that falls on tokens ",
      "still held, averaged over the steps of the answer that it was measured in.</p>\n");
  absl::StrAppend(&out, "<div class=\"map\" style=\"--row:", RowPixels(layers), "px\">\n",
                  "<div></div><div class=\"axis top\" style=\"--split:", split,
                  "\"><span class=\"prompt\">prompt</span><span class=\"new\">answer</span></div>",
                  "<div class=\"head\">", RecallHead(e.usage), "</div>\n<ol class=\"layers\">");
  const int every = layers <= 16 ? 1 : 5;
  for (int32_t layer = 0; layer < layers; ++layer) {
    absl::StrAppend(&out, "<li>", layer % every == 0 ? absl::StrCat(layer) : "", "</li>");
  }
  absl::StrAppend(&out, "</ol>\n<div class=\"cells\" style=\"height:calc(", layers,
                  " * var(--row))\">");
  AppendCells(map, layers, out);
  absl::StrAppend(&out, "<div class=\"split\" style=\"left:", split, "\"></div></div>\n");
  if (e.usage.recall && e.usage.recall->steps > 0) {
    AppendRecall(*e.usage.recall, out);
  } else {
    out += "<div></div>\n";
  }
  AppendAxis(fed, shown, out);
  out += "</div>\n</section>\n";
}

}  // namespace hydrant::server
