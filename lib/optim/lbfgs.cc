#include "optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/vectorize.h"

namespace dtrain::optim {
namespace {

constexpr size_t kLanes = 16;

double fold(double* lanes) {
  for (size_t width = kLanes / 2; width > 0; width /= 2)
    for (size_t l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

// Element i joins lane i mod 16, and the lanes are added pairwise.
template <typename B>
__attribute__((always_inline)) inline double dot_loop(const float* a, const B* b, size_t n) {
  double lanes[kLanes] = {};
  const size_t whole = n / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes)
    for (size_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (size_t i = whole; i < n; ++i) lanes[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return fold(lanes);
}

DTRAIN_CLONES double dot32(const float* a, const float* b, size_t n) { return dot_loop(a, b, n); }
DTRAIN_CLONES double dot64(const float* a, const double* b, size_t n) { return dot_loop(a, b, n); }

DTRAIN_CLONES void add_scaled(double* to, double factor, const float* v, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i) to[i] += factor * static_cast<double>(v[i]);
}

DTRAIN_CLONES void point_on_line(const float* x, double step, const float* direction, float* to, size_t n) {
  DTRAIN_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    to[i] = static_cast<float>(static_cast<double>(x[i]) + step * static_cast<double>(direction[i]));
}

double dot(std::span<const float> a, std::span<const float> b) { return dot32(a.data(), b.data(), a.size()); }

std::vector<float> difference(std::span<const float> a, std::span<const float> b) {
  std::vector<float> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

}  // namespace

Lbfgs::Lbfgs(const LbfgsOptions& options, std::vector<float> start) : options_(options), point_(std::move(start)) {}

void Lbfgs::restore(std::vector<std::vector<float>> s, std::vector<std::vector<float>> y) {
  DTRAIN_CHECK(!begun_ && s.size() == y.size() && s.size() <= static_cast<size_t>(options_.history));
  s_ = std::move(s);
  y_ = std::move(y);
  for (size_t i = 0; i < s_.size(); ++i) {
    DTRAIN_CHECK(s_[i].size() == point_.size() && y_[i].size() == point_.size());
    rho_.push_back(1 / dot(s_[i], y_[i]));
  }
}

Lbfgs::Progress Lbfgs::tell(double value, std::span<const float> gradient) {
  DTRAIN_CHECK(gradient.size() == point_.size());
  if (!begun_) {
    begun_ = true;
    value_ = value;
    return accept(value, gradient);
  }
  switch (line_.tell(value, dot(gradient, direction_))) {
    case LineSearch::Progress::kSearching:
      go_to(line_.ask());
      return Progress::kSearching;
    case LineSearch::Progress::kFound:
    case LineSearch::Progress::kEnough:
      step_ = line_.ask();
      remember(gradient);
      return accept(value, gradient);
    case LineSearch::Progress::kFailed:
      break;
  }
  if (s_.empty()) return Progress::kStuck;
  s_.clear();  // what it remembers does not fit here
  y_.clear();
  rho_.clear();
  search();
  return Progress::kSearching;
}

Lbfgs::Progress Lbfgs::accept(double value, std::span<const float> gradient) {
  const double before = value_;
  const bool first = x_.empty();
  x_ = point_;
  value_ = value;
  gradient_.assign(gradient.begin(), gradient.end());
  const double size = std::max(1.0, std::abs(value));
  const bool flat = std::sqrt(dot(gradient_, gradient_)) <= options_.tolerance * size;
  const bool still = !first && before - value <= options_.tolerance * std::max(size, std::abs(before));
  if (flat || still) return Progress::kConverged;
  search();
  return Progress::kIterated;
}

// A pair that the curvature along it, or rounding, makes useless is left out: H must stay positive definite.
void Lbfgs::remember(std::span<const float> gradient) {
  std::vector<float> s = difference(point_, x_), y = difference(gradient, gradient_);
  const double sy = dot(s, y), yy = dot(y, y);
  if (options_.history == 0 || !(sy > 1e-10 * yy) || !std::isfinite(1 / sy)) return;
  if (s_.size() == static_cast<size_t>(options_.history)) {
    s_.erase(s_.begin());
    y_.erase(y_.begin());
    rho_.erase(rho_.begin());
  }
  s_.push_back(std::move(s));
  y_.push_back(std::move(y));
  rho_.push_back(1 / sy);
}

// −H · gradient, by the two loops of algorithm 7.4.
void Lbfgs::choose_direction() {
  const size_t n = gradient_.size();
  std::vector<double> q(n), alpha(s_.size());
  add_scaled(q.data(), -1.0, gradient_.data(), n);
  for (size_t i = s_.size(); i-- > 0;) {
    alpha[i] = rho_[i] * dot64(s_[i].data(), q.data(), n);
    add_scaled(q.data(), -alpha[i], y_[i].data(), n);
  }
  if (!s_.empty()) {
    const double gamma = 1 / (rho_.back() * dot(y_.back(), y_.back()));
    for (double& v : q) v *= gamma;
  }
  for (size_t i = 0; i < s_.size(); ++i) {
    const double beta = rho_[i] * dot64(y_[i].data(), q.data(), n);
    add_scaled(q.data(), alpha[i] - beta, s_[i].data(), n);
  }
  direction_.resize(n);
  for (size_t i = 0; i < n; ++i) direction_[i] = static_cast<float>(q[i]);
}

void Lbfgs::search() {
  choose_direction();
  double slope = dot(gradient_, direction_);
  if (!(slope < 0) && !s_.empty()) {
    s_.clear();
    y_.clear();
    rho_.clear();
    choose_direction();
    slope = dot(gradient_, direction_);
  }
  double first = 1.0;
  if (s_.empty()) {  // nothing is known of the scale: a step of length 1 at most, by the sum of magnitudes
    double sum = 0.0;
    for (float g : gradient_) sum += std::abs(static_cast<double>(g));
    first = std::min(1.0, 1 / sum);
  }
  line_.begin(value_, slope, first);
  go_to(first);
}

void Lbfgs::go_to(double step) { point_on_line(x_.data(), step, direction_.data(), point_.data(), x_.size()); }

}  // namespace dtrain::optim
