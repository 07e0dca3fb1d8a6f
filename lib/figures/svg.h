// Writes one SVG picture, element after element, that needs nothing from outside: no script, no style sheet, no font
// file. Coordinates in pixels, from the top left corner. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::figures {

struct Pixel {
  double x = 0, y = 0;
};

class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  struct Stroke {
    std::string colour = "#444";
    double width = 1;
    bool dashed = false;
  };
  void line(Pixel from, Pixel to, const Stroke& stroke);
  void path(const std::vector<Pixel>& points, const Stroke& stroke);
  void dot(Pixel at, double radius, const std::string& colour);

  enum class Anchor { kStart, kMiddle, kEnd };
  struct Font {
    double size = 12;
    std::string colour = "#222";
    bool bold = false;
    bool upright = true;  // false: read from below, along a vertical axis
  };
  void text(Pixel at, Anchor anchor, std::string_view words, const Font& font);

  std::string finish() &&;

 private:
  std::string out_;
};

// With &, <, > and quotes as XML wants them; characters that XML has not are left out.
std::string xml_text(std::string_view text);

}  // namespace dtrain::figures
