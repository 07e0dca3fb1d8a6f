// A step length along a descent direction that fulfils the strong Wolfe conditions (Nocedal and Wright 2006, algorithms
// 3.5 and 3.6, with their cubic interpolation, equation 3.59): ask() for the length, tell() value and slope there.
// Pure; one thread.
#pragma once

#include <optional>

namespace dtrain::optim {

class LineSearch {
 public:
  // Of the function along the direction: at length 0 `value`, and `slope` < 0.
  void begin(double value, double slope, double first_length);

  enum class Progress {
    kSearching,  // ask() again
    kFound,      // the length told fulfils both conditions
    kEnough,  // it does not, but length() is the best that was seen, and the value is low enough there: where rounding
              // or the number of tries ends the search, ask() is that length
    kFailed,  // nothing better than where it began
  };

  double ask() const { return length_; }
  Progress tell(double value, double slope);

 private:
  struct Point {
    double length = 0.0, value = 0.0, slope = 0.0;
  };
  Progress zoom(const Point& now);
  Progress give_up();
  bool low_enough(const Point& p) const;
  void interpolate();

  Point start_, before_;
  std::optional<Point> low_, high_;  // while zooming: a good length lies between
  std::optional<Point> best_;        // of those that are low enough
  double length_ = 0.0;
  int tries_ = 0;
  bool settling_ = false;  // the best one is asked for again
};

}  // namespace dtrain::optim
