// One thing that a benchmark measured, once a round: what is kept of the rounds, and how it is said. Values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::figures {

struct Figure {
  std::string name;   // stable: what --json calls it and --compare looks for
  std::string text;   // for people
  std::string unit;   // "ms", "samples/s", "GB/s"
  std::string group;  // a heading that it stands under
  bool less_is_better = false;
  int rounds = 0;
  double median = 0, low = 0, high = 0, best = 0;  // low, high: the quartiles of the rounds
  double peak = 0;                                 // the best that it could be, in its unit; 0: that is not known
  std::string peak_of;                             // what reaches that: "matrix product"

  double of_peak() const { return peak == 0 ? 0 : less_is_better ? peak / best : best / peak; }
};

// REQUIRES values. Between two values a quartile is where the straight line between them is.
Figure summarise(Figure about, std::vector<double> values);
// At the place `part` (0 to 1) of the sorted values.
double quantile(const std::vector<double>& sorted, double part);

}  // namespace dtrain::figures
