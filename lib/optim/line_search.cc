#include "optim/line_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtrain::optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // Nocedal and Wright's c₁ and c₂ for quasi-Newton directions
constexpr double kLongest = 1e10;
constexpr int kTries = 20;

}  // namespace

void LineSearch::begin(double value, double slope, double first_length) {
  start_ = before_ = {0.0, value, slope};
  low_.reset();
  high_.reset();
  best_.reset();
  length_ = first_length;
  tries_ = 0;
  settling_ = false;
}

bool LineSearch::low_enough(const Point& p) const {
  return p.value <= start_.value + kDecrease * p.length * start_.slope && p.value < start_.value;
}

LineSearch::Progress LineSearch::tell(double value, double slope) {
  if (settling_) return Progress::kEnough;
  Point now{length_, value, slope};
  if (!std::isfinite(value) || !std::isfinite(slope)) now = {length_, INFINITY, 0.0};
  ++tries_;
  if (low_enough(now) && (!best_ || now.value < best_->value)) best_ = now;
  if (low_) return zoom(now);
  if (!low_enough(now) || (before_.length > 0 && now.value >= before_.value)) {
    low_ = before_;
    high_ = now;
  } else if (std::abs(now.slope) <= -kCurvature * start_.slope) {
    return Progress::kFound;
  } else if (now.slope >= 0) {
    low_ = now;
    high_ = before_;
  } else {
    before_ = now;
    length_ *= 2;
    return tries_ >= kTries || length_ > kLongest ? give_up() : Progress::kSearching;
  }
  interpolate();
  return Progress::kSearching;
}

LineSearch::Progress LineSearch::zoom(const Point& now) {
  if (!low_enough(now) || now.value >= low_->value) {
    high_ = now;
  } else {
    if (std::abs(now.slope) <= -kCurvature * start_.slope) return Progress::kFound;
    if (now.slope * (high_->length - low_->length) >= 0) high_ = low_;
    low_ = now;
  }
  const double width = std::abs(high_->length - low_->length);
  if (tries_ >= kTries || width <= 1e-9 * std::max(low_->length, high_->length)) return give_up();
  interpolate();
  return Progress::kSearching;
}

// The minimum of the cubic through both ends, where it lies well inside; else the middle.
void LineSearch::interpolate() {
  const Point &a = *low_, &b = *high_;
  const double width = b.length - a.length;
  length_ = a.length + 0.5 * width;
  if (!std::isfinite(b.value)) return;
  const double d1 = a.slope + b.slope - 3 * (b.value - a.value) / width;
  const double under = d1 * d1 - a.slope * b.slope;
  if (!(under >= 0)) return;
  const double d2 = std::copysign(std::sqrt(under), width);
  const double t = 1 - (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2);  // 0 at a, 1 at b
  if (t > 0.1 && t < 0.9) length_ = a.length + t * width;
}

LineSearch::Progress LineSearch::give_up() {
  if (!best_) return Progress::kFailed;
  const bool there = std::exchange(length_, best_->length) == best_->length;
  if (there) return Progress::kEnough;
  settling_ = true;
  return Progress::kSearching;
}

}  // namespace dtrain::optim
