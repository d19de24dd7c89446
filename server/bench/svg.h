// A drawing of lines and text on a grid of units that are pixels at its natural size.

#ifndef HYDRANT_SERVER_BENCH_SVG_H_
#define HYDRANT_SERVER_BENCH_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant::server::bench {

using Points = std::vector<std::pair<double, double>>;

class Svg {
 public:
  enum class Anchor { kStart, kMiddle, kEnd };

  Svg(double width, double height);

  // `style`: CSS of the shape, such as "stroke:#222".
  void Line(double x1, double y1, double x2, double y2, std::string_view style);
  void Polyline(const Points& points, std::string_view style);
  void Circle(double x, double y, double radius, std::string_view style);
  // Any text; what SVG cannot hold is replaced.
  void Text(double x, double y, std::string_view text, Anchor anchor = Anchor::kStart,
            std::string_view style = "");

  std::string Finish() &&;

 private:
  std::string body_;
};

// A rectangle with axes: x from 0 to `x_max`, y from 0 to `y_max`, both above 0.
struct Panel {
  double left, top, width, height;
  double x_max, y_max;

  double X(double x) const { return left + width * x / x_max; }
  double Y(double y) const { return top + height - height * y / y_max; }
  // Grid, ticks at round numbers, and the title above.
  void Draw(Svg& svg, std::string_view title, std::string_view x_unit) const;
  Points Map(const Points& points) const;
};

}  // namespace hydrant::server::bench

#endif  // HYDRANT_SERVER_BENCH_SVG_H_
