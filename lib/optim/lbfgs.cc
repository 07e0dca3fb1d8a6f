#include "optim/lbfgs.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace dtrain::optim {
namespace {

using Dots = std::vector<std::pair<uint32_t, uint32_t>>;

uint32_t slot(size_t i) { return kFirstSlot + static_cast<uint32_t>(i); }

// What a line search needs of a point.
Dots of_a_point() { return {{kGradientVector, kDirection}, {kGradientVector, kGradientVector}}; }

}  // namespace

Lbfgs::Lbfgs(const LbfgsOptions& options, bool restored) : options_(options), restored_(restored) {
  order_.dots = {{kGradientVector, kGradientVector}};
}

VectorOrder Lbfgs::back_to_iterate() {
  VectorOrder order;
  order.lines = {{kNextPoint, {{1.0, kIterate}}}};
  order.commit = true;
  return order;
}

Lbfgs::Progress Lbfgs::tell(double value, std::span<const double> dots) {
  DTRAIN_CHECK(dots.size() == order_.dots.size());
  if (measuring_) {
    measuring_ = false;
    return accepted(dots);
  }
  return judge(value, dots);
}

// Of a point that was evaluated.
Lbfgs::Progress Lbfgs::judge(double value, std::span<const double> dots) {
  if (!begun_) {
    before_ = value_ = value;
    ask_at_iterate();
    return Progress::kMeasuring;
  }
  // Where the gradient is not finite the slope says nothing.
  const double slope = std::isfinite(dots[1]) ? dots[0] : std::nan("");
  switch (line_.tell(value, slope)) {
    case LineSearch::Progress::kSearching:
      go_to({}, line_.ask());
      return Progress::kSearching;
    case LineSearch::Progress::kFound:
    case LineSearch::Progress::kEnough:
      step_ = line_.ask();
      before_ = value_;
      value_ = value;
      ask_at_iterate();
      return Progress::kMeasuring;
    case LineSearch::Progress::kFailed:
      break;
  }
  if (rho_.empty()) {
    order_ = back_to_iterate();
    return Progress::kStuck;
  }
  VectorOrder order;
  clear(order);  // what it remembers does not fit here
  search(std::move(order));
  return Progress::kSearching;
}

// The point becomes the iterate; asks for all that is needed of it.
void Lbfgs::ask_at_iterate() {
  order_ = {};
  measuring_ = true;
  const size_t vectors = begun_ ? 2 * rho_.size() : restored_ ? 2 * static_cast<size_t>(options_.history) : 0;
  if (begun_) {
    order_.lines.push_back({kStepVector, {{1.0, kPointVector}, {-1.0, kIterate}}});
    order_.lines.push_back({kChangeVector, {{1.0, kGradientVector}, {-1.0, kIterateGradient}}});
  }
  order_.lines.push_back({kIterate, {{1.0, kPointVector}}});
  order_.lines.push_back({kIterateGradient, {{1.0, kGradientVector}}});
  order_.dots = {{kIterateGradient, kIterateGradient}, {kIterateGradient, kSigns}};
  for (size_t v = 0; v < vectors; ++v) order_.dots.emplace_back(kIterateGradient, slot(v));
  if (begun_) {
    order_.dots.insert(order_.dots.end(), {{kStepVector, kStepVector},
                                           {kStepVector, kChangeVector},
                                           {kChangeVector, kChangeVector},
                                           {kIterateGradient, kStepVector},
                                           {kIterateGradient, kChangeVector}});
    for (size_t v = 0; v < vectors; ++v) order_.dots.emplace_back(kStepVector, slot(v));
    for (size_t v = 0; v < vectors; ++v) order_.dots.emplace_back(kChangeVector, slot(v));
  } else {
    for (size_t a = 0; a < vectors; ++a)
      for (size_t b = 0; b <= a; ++b) order_.dots.emplace_back(slot(a), slot(b));
  }
}

Lbfgs::Progress Lbfgs::accepted(std::span<const double> dots) {
  const bool first = !begun_;
  begun_ = true;
  gradient_squared_ = dots[0];
  gradient_sum_ = dots[1];
  VectorOrder order;
  if (first) {
    size_t vectors = restored_ ? 2 * static_cast<size_t>(options_.history) : 0;
    with_gradient_.assign(dots.begin() + 2, dots.begin() + 2 + static_cast<ptrdiff_t>(vectors));
    gram_.assign(vectors, std::vector<double>(vectors));
    size_t at = 2 + vectors;
    for (size_t a = 0; a < vectors; ++a)
      for (size_t b = 0; b <= a; ++b) gram_[a][b] = gram_[b][a] = dots[at++];
    size_t pairs = 0;  // so many are there
    while (2 * pairs < vectors && gram(2 * pairs, 2 * pairs) > 0) ++pairs;
    gram_.resize(2 * pairs);
    for (std::vector<double>& row : gram_) row.resize(2 * pairs);
    with_gradient_.resize(2 * pairs);
    for (size_t i = 0; i < pairs; ++i) rho_.push_back(1 / gram(2 * i, 2 * i + 1));
  } else {
    const auto vectors = static_cast<ptrdiff_t>(2 * rho_.size());
    with_gradient_.assign(dots.begin() + 2, dots.begin() + 2 + vectors);
    candidate_.assign(dots.begin() + 2 + vectors, dots.end());
    // A pair that the curvature along it, or rounding, makes useless is left out: H must stay positive definite.
    const double sy = candidate_[1], yy = candidate_[2];
    if (options_.history > 0 && sy > 1e-10 * yy && std::isfinite(1 / sy)) {
      order.drop_oldest = rho_.size() == static_cast<size_t>(options_.history);
      keep_pair();
      order.lines.push_back({slot(2 * rho_.size() - 2), {{1.0, kStepVector}}});
      order.lines.push_back({slot(2 * rho_.size() - 1), {{1.0, kChangeVector}}});
    }
  }
  const double size = std::max(1.0, std::abs(value_));
  const bool flat = std::sqrt(gradient_squared_) <= options_.tolerance * size;
  const bool still = !first && before_ - value_ <= options_.tolerance * std::max(size, std::abs(before_));
  if (flat || still) {
    const VectorOrder back = back_to_iterate();
    order.lines.insert(order.lines.end(), back.lines.begin(), back.lines.end());
    order.commit = true;
    order_ = std::move(order);
    return Progress::kConverged;
  }
  search(std::move(order));
  return Progress::kIterated;
}

void Lbfgs::keep_pair() {
  const size_t vectors = 2 * rho_.size();
  const double ss = candidate_[0], sy = candidate_[1], yy = candidate_[2];
  const double* const with_s = candidate_.data() + 5;
  const double* const with_y = with_s + vectors;
  for (size_t v = 0; v < vectors; ++v) {
    gram_[v].push_back(with_s[v]);
    gram_[v].push_back(with_y[v]);
  }
  std::vector<double> s(with_s, with_s + vectors), y(with_y, with_y + vectors);
  s.insert(s.end(), {ss, sy});
  y.insert(y.end(), {sy, yy});
  gram_.push_back(std::move(s));
  gram_.push_back(std::move(y));
  with_gradient_.insert(with_gradient_.end(), {candidate_[3], candidate_[4]});
  rho_.push_back(1 / sy);
  if (rho_.size() > static_cast<size_t>(options_.history)) drop_oldest();
}

void Lbfgs::drop_oldest() {
  gram_.erase(gram_.begin(), gram_.begin() + 2);
  for (std::vector<double>& row : gram_) row.erase(row.begin(), row.begin() + 2);
  with_gradient_.erase(with_gradient_.begin(), with_gradient_.begin() + 2);
  rho_.erase(rho_.begin());
}

// Of the slots nothing may be left that looks like a pair.
void Lbfgs::clear(VectorOrder& order) {
  for (size_t v = 0; v < 2 * rho_.size(); ++v) order.lines.push_back({slot(v), {}});
  gram_.clear();
  with_gradient_.clear();
  rho_.clear();
}

// Along −H · gradient, by the two loops of algorithm 7.4 on coefficients: d = Σ c[v] · v − … · g.
void Lbfgs::search(VectorOrder order) {
  std::vector<double> c(2 * rho_.size());
  double of_gradient = -1.0;
  const auto with = [&](size_t v) {  // vᵀq
    double sum = of_gradient * with_gradient_[v];
    for (size_t u = 0; u < c.size(); ++u) sum += c[u] * gram(v, u);
    return sum;
  };
  std::vector<double> alpha(rho_.size());
  for (size_t i = rho_.size(); i-- > 0;) {
    alpha[i] = rho_[i] * with(2 * i);
    c[2 * i + 1] -= alpha[i];
  }
  if (!rho_.empty()) {
    const size_t last = c.size() - 1;
    const double gamma = 1 / (rho_.back() * gram(last, last));
    for (double& x : c) x *= gamma;
    of_gradient *= gamma;
  }
  for (size_t i = 0; i < rho_.size(); ++i) c[2 * i] += alpha[i] - rho_[i] * with(2 * i + 1);

  double slope = of_gradient * gradient_squared_;
  for (size_t v = 0; v < c.size(); ++v) slope += c[v] * with_gradient_[v];
  if (!(slope < 0) && !rho_.empty()) {
    clear(order);
    return search(std::move(order));
  }
  VectorLine direction{kDirection, {{of_gradient, kIterateGradient}}};
  for (size_t v = 0; v < c.size(); ++v) direction.terms.emplace_back(c[v], slot(v));
  order.lines.push_back(std::move(direction));
  // Where nothing is known of the scale: a step of length 1 at most, by the sum of magnitudes.
  const double first = rho_.empty() ? std::min(1.0, 1 / gradient_sum_) : 1.0;
  line_.begin(value_, slope, first);
  go_to(std::move(order), first);
}

void Lbfgs::go_to(VectorOrder order, double length) {
  order.lines.push_back({kNextPoint, {{1.0, kIterate}, {length, kDirection}}});
  order.commit = true;
  order.dots = of_a_point();
  order_ = std::move(order);
}

}  // namespace dtrain::optim
