#include "figures/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "figures/svg.h"

namespace dtrain::figures {
namespace {

constexpr double kWidth = 460, kHeight = 300;  // of what lies between the axes' ends
constexpr double kLeft = 78, kRight = 26, kTop = 104, kBottom = 92;
constexpr const char* kGuide = "#888";
// Told apart by people who do not see all colours alike (Okabe and Ito's palette).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// The names in the order in which they first come.
struct Legend {
  struct Entry {
    std::string name, colour;
    bool guide = false;
  };
  std::vector<Entry> entries;

  explicit Legend(const std::vector<LineChart>& charts) {
    size_t colours = 0;
    for (const LineChart& chart : charts)
      for (const ChartSeries& s : chart.series)
        if (!find(s.name))
          entries.push_back({s.name, s.guide ? kGuide : kColours[colours++ % std::size(kColours)], s.guide});
  }
  const Entry* find(const std::string& name) const {
    const auto at = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
    return at == entries.end() ? nullptr : &*at;
  }
};

// 12345 as "12,345"; 0.25 as it is.
std::string label(double x) {
  std::string text = fmt::format("{:g}", std::round(x * 1e6) / 1e6);
  if (std::abs(x) >= 10'000 && std::abs(x) < 1e15) {
    text = fmt::format("{:.0f}", x);
    for (auto at = static_cast<ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

class Panel {
 public:
  Panel(Svg& svg, const LineChart& chart, const Legend& legend, double left)
      : svg_(svg), chart_(chart), legend_(legend), left_(left) {
    double y_most = 0;
    for (const ChartSeries& s : chart.series)
      for (const ChartPoint& p : s.points) {
        xs_.insert(p.x);
        y_most = std::max({y_most, p.y, p.high});
      }
    marks_ = axis_marks(y_most);
    x_first_ = xs_.empty() ? 0 : *xs_.begin();
    x_last_ = xs_.empty() ? 1 : *xs_.rbegin();
    if (x_first_ == x_last_) {
      x_first_ -= 1;
      x_last_ += 1;
    }
  }
  void draw() {
    draw_axes();
    for (const ChartSeries& s : chart_.series) draw_series(s);
  }

 private:
  // A margin keeps the first and the last points off the frame.
  double x(double value) const { return left_ + kWidth * (0.04 + 0.92 * (value - x_first_) / (x_last_ - x_first_)); }
  double y(double value) const { return kTop + kHeight * (1 - value / marks_.back()); }

  void draw_axes() {
    svg_.text({left_ + kWidth / 2, kTop - 14}, Svg::Anchor::kMiddle, chart_.title, {.size = 14, .bold = true});
    for (const double mark : marks_) {
      svg_.line({left_, y(mark)}, {left_ + kWidth, y(mark)}, {.colour = mark == 0 ? "#444" : "#ddd"});
      svg_.text({left_ - 8, y(mark) + 4}, Svg::Anchor::kEnd, label(mark), {});
    }
    svg_.line({left_, kTop}, {left_, kTop + kHeight}, {});
    double free_from = 0;
    for (const double at : xs_) {
      svg_.line({x(at), kTop + kHeight}, {x(at), kTop + kHeight + 5}, {});
      const std::string words = label(at);
      const double half = 4.0 * static_cast<double>(words.size());
      if (x(at) - half < free_from) continue;
      svg_.text({x(at), kTop + kHeight + 20}, Svg::Anchor::kMiddle, words, {});
      free_from = x(at) + half + 4;
    }
    svg_.text({left_ + kWidth / 2, kTop + kHeight + 42}, Svg::Anchor::kMiddle, chart_.x_label, {.size = 13});
    svg_.text({left_ - 58, kTop + kHeight / 2}, Svg::Anchor::kMiddle, chart_.y_label, {.size = 13, .upright = false});
  }

  void draw_series(const ChartSeries& s) {
    const std::string& colour = legend_.find(s.name)->colour;
    std::vector<Pixel> line;
    for (const ChartPoint& p : s.points) line.push_back({x(p.x), y(p.y)});
    svg_.path(line, {.colour = colour, .width = s.guide ? 1.5 : 2.0, .dashed = s.guide});
    if (s.guide) return;
    for (const ChartPoint& p : s.points) {
      if (p.high > p.low) {
        svg_.line({x(p.x), y(p.low)}, {x(p.x), y(p.high)}, {.colour = colour, .width = 1.5});
        for (const double end : {p.low, p.high})
          svg_.line({x(p.x) - 5, y(end)}, {x(p.x) + 5, y(end)}, {.colour = colour, .width = 1.5});
      }
      svg_.dot({x(p.x), y(p.y)}, 4, colour);
    }
  }

  Svg& svg_;
  const LineChart& chart_;
  const Legend& legend_;
  const double left_;
  std::set<double> xs_;
  std::vector<double> marks_;
  double x_first_ = 0, x_last_ = 1;
};

void draw_legend(Svg& svg, const Legend& legend, double left, double top) {
  for (const Legend::Entry& e : legend.entries) {
    svg.line({left, top - 4}, {left + 28, top - 4}, {.colour = e.colour, .width = 2, .dashed = e.guide});
    if (!e.guide) svg.dot({left + 14, top - 4}, 4, e.colour);
    svg.text({left + 36, top}, Svg::Anchor::kStart, e.name, {.size = 13});
    left += 36 + 7.5 * static_cast<double>(e.name.size()) + 28;
  }
}

}  // namespace

std::vector<double> axis_marks(double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  const double power = std::pow(10, std::floor(std::log10(most / 5)));
  double step = power;
  for (const double times : {2.0, 5.0, 10.0})
    if (most / step > 6) step = times * power;
  std::vector<double> marks;
  for (int i = 0; i == 0 || marks.back() < most * (1 - 1e-9); ++i) marks.push_back(i * step);
  return marks;
}

std::string draw(const std::string& title, const std::string& subtitle, const std::vector<LineChart>& charts) {
  const Legend legend(charts);
  const double each = kLeft + kWidth + kRight;
  const double width = each * static_cast<double>(charts.size());
  Svg svg(width, kTop + kHeight + kBottom, title);
  svg.text({kLeft, 32}, Svg::Anchor::kStart, title, {.size = 18, .bold = true});
  svg.text({kLeft, 54}, Svg::Anchor::kStart, subtitle, {.size = 12, .colour = "#555"});
  for (size_t i = 0; i < charts.size(); ++i)
    Panel(svg, charts[i], legend, kLeft + each * static_cast<double>(i)).draw();
  draw_legend(svg, legend, kLeft, kTop + kHeight + kBottom - 20);
  return std::move(svg).finish();
}

}  // namespace dtrain::figures
