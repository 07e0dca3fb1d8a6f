#include "figures/svg.h"

#include <fmt/format.h>

namespace dtrain::figures {
namespace {

std::string stroke_words(const Svg::Stroke& stroke) {
  return fmt::format(R"(fill="none" stroke="{}" stroke-width="{:g}"{})", stroke.colour, stroke.width,
                     stroke.dashed ? R"( stroke-dasharray="6 4")" : "");
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= ' ') out += c;
    }
  }
  return out;
}

Svg::Svg(double width, double height, std::string_view title) {
  out_ = fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 0 {0:g} {1:g}" font-family="sans-serif">
<title>{2}</title>
<rect width="{0:g}" height="{1:g}" fill="white"/>
)",
      width, height, xml_text(title));
}

void Svg::line(Pixel from, Pixel to, const Stroke& stroke) {
  out_ += fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {}/>)", from.x, from.y, to.x, to.y,
                      stroke_words(stroke)) +
          "\n";
}

void Svg::path(const std::vector<Pixel>& points, const Stroke& stroke) {
  std::string all;
  for (const Pixel& p : points) all += fmt::format("{}{:.1f},{:.1f}", all.empty() ? "" : " ", p.x, p.y);
  out_ += fmt::format(R"(<polyline points="{}" {}/>)", all, stroke_words(stroke)) + "\n";
}

void Svg::dot(Pixel at, double radius, const std::string& colour) {
  out_ += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" fill="{}"/>)", at.x, at.y, radius, colour) + "\n";
}

void Svg::text(Pixel at, Anchor anchor, std::string_view words, const Font& font) {
  const char* const where = anchor == Anchor::kStart ? "start" : anchor == Anchor::kMiddle ? "middle" : "end";
  out_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" font-size="{:g}" fill="{}")", at.x, at.y, where,
                      font.size, font.colour);
  if (font.bold) out_ += R"( font-weight="bold")";
  if (!font.upright) out_ += fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", at.x, at.y);
  out_ += fmt::format(">{}</text>\n", xml_text(words));
}

std::string Svg::finish() && { return std::move(out_) + "</svg>\n"; }

}  // namespace dtrain::figures
