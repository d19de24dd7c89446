#include "server/bench/svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/tokenizer/utf8.h"
#include "server/bench/nice_step.h"

namespace hydrant::server::bench {
namespace {

constexpr int kMostYTicks = 5;
constexpr double kXTickWidth = 80;  // at least

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : engine::ToValidUtf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        // XML has no other control characters, and a line of text no line breaks.
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

}  // namespace

Svg::Svg(double width, double height) {
  absl::StrAppendFormat(
      &body_,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "font-family=\"system-ui, 'Helvetica Neue', Arial, sans-serif\" font-size=\"12\" "
      "fill=\"#333\">\n<rect width=\"%g\" height=\"%g\" fill=\"#fff\"/>\n",
      width, height, width, height, width, height);
}

void Svg::Line(double x1, double y1, double x2, double y2, std::string_view style) {
  absl::StrAppendFormat(&body_,
                        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" style=\"%s\"/>\n",
                        x1, y1, x2, y2, View(style));
}

void Svg::Polyline(const Points& points, std::string_view style) {
  absl::StrAppend(&body_, "<polyline points=\"");
  for (const auto& [x, y] : points) absl::StrAppendFormat(&body_, "%.1f,%.1f ", x, y);
  absl::StrAppend(&body_, "\" style=\"fill:none;stroke-linejoin:round;", View(style), "\"/>\n");
}

void Svg::Circle(double x, double y, double radius, std::string_view style) {
  absl::StrAppendFormat(&body_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" style=\"%s\"/>\n", x, y,
                        radius, View(style));
}

void Svg::Text(double x, double y, std::string_view text, Anchor anchor, std::string_view style) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  absl::StrAppendFormat(&body_,
                        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" style=\"%s\">%s</text>\n",
                        x, y, kAnchors[static_cast<int>(anchor)], View(style), Escaped(text));
}

std::string Svg::Finish() && { return std::move(body_) + "</svg>\n"; }

void Panel::Draw(Svg& svg, std::string_view title, std::string_view x_unit) const {
  svg.Text(left, top - 10, title, Svg::Anchor::kStart, "font-weight:600");
  const double y_step = NiceStep(y_max / kMostYTicks);
  for (int i = 0; i * y_step <= y_max * 1.0001; ++i) {
    const double y = Y(i * y_step);
    svg.Line(left, y, left + width, y, i == 0 ? "stroke:#666" : "stroke:#e4e4e4");
    svg.Text(left - 6, y + 4, absl::StrFormat("%g", i * y_step), Svg::Anchor::kEnd, "fill:#666");
  }
  const double x_step = NiceStep(x_max * kXTickWidth / width);
  for (int i = 0; i * x_step <= x_max * 1.0001; ++i) {
    const double x = X(i * x_step);
    svg.Line(x, top + height, x, top + height + 4, "stroke:#666");
    svg.Text(x, top + height + 17,
             i == 0 ? absl::StrCat("0 ", View(x_unit)) : absl::StrFormat("%g", i * x_step),
             Svg::Anchor::kMiddle, "fill:#666");
  }
}

Points Panel::Map(const Points& points) const {
  Points mapped;
  for (const auto& [x, y] : points) mapped.emplace_back(X(x), Y(y));
  return mapped;
}

}  // namespace hydrant::server::bench
