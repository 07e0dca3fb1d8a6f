// Charts of numbers over a count, as throughput over workers, side by side in one picture under one legend. Values.
#pragma once

#include <string>
#include <vector>

namespace dtrain::figures {

struct ChartPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // the range that is drawn through the point
};

struct ChartSeries {
  std::string name;  // those of one name have one colour and one place in the legend
  std::vector<ChartPoint> points;
  bool guide = false;  // what one compares with: dashed, grey, without dots
};

struct LineChart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
};

// An SVG document. The axes of y begin at 0; those of x have a mark at every x that occurs, as far as there is room.
std::string draw(const std::string& title, const std::string& subtitle, const std::vector<LineChart>& charts);

// Marks of an axis from 0 that reaches at least `most`: equal steps of 1, 2 or 5 times a power of ten, about five.
std::vector<double> axis_marks(double most);

}  // namespace dtrain::figures
