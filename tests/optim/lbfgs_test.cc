#include "optim/lbfgs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace dtrain::optim {
namespace {

using Progress = Lbfgs::Progress;
using Point = std::vector<float>;

// Who holds the vectors, in plain loops.
class Machine {
 public:
  Machine(const LbfgsOptions& options, Point start, std::map<uint32_t, Point> slots = {})
      : lbfgs_(options, !slots.empty()),
        n_(start.size()),
        last_slot_(kFirstSlot + 2 * static_cast<uint32_t>(options.history)) {
    vectors_ = std::move(slots);
    vectors_[kPointVector] = std::move(start);
  }

  const Point& ask() { return vectors_[kPointVector]; }
  Progress tell(double value, const Point& gradient) {
    vectors_[kGradientVector] = gradient;
    Progress progress;
    do {
      const VectorOrder asked = lbfgs_.order();
      std::vector<double> dots;
      for (const auto& [a, b] : asked.dots) dots.push_back(dot(a, b));
      progress = lbfgs_.tell(value, dots);
      carry_out(lbfgs_.order());
    } while (progress == Progress::kMeasuring);
    return progress;
  }
  const Point& iterate() { return vectors_[kIterate]; }
  size_t pairs() const { return lbfgs_.pairs(); }
  std::map<uint32_t, Point> slots() const { return {vectors_.lower_bound(kFirstSlot), vectors_.end()}; }

 private:
  Point& vector(uint32_t id) {
    Point& v = vectors_[id];
    v.resize(n_);
    return v;
  }
  double dot(uint32_t a, uint32_t b) {
    double sum = 0;
    const Point left = vector(a);
    for (size_t i = 0; i < n_; ++i)
      sum += b == kSigns ? std::abs(static_cast<double>(left[i])) : static_cast<double>(left[i]) * vector(b)[i];
    return sum;
  }
  void carry_out(const VectorOrder& order) {
    if (order.drop_oldest)
      for (uint32_t id = kFirstSlot; id + 2 < last_slot_; ++id) vector(id) = vector(id + 2);
    for (const VectorLine& line : order.lines) {
      std::vector<double> sum(n_);
      for (const auto& [factor, id] : line.terms)
        for (size_t i = 0; i < n_; ++i) sum[i] += factor * static_cast<double>(vector(id)[i]);
      for (size_t i = 0; i < n_; ++i) vector(line.to)[i] = static_cast<float>(sum[i]);
    }
    EXPECT_EQ(order.commit, std::any_of(order.lines.begin(), order.lines.end(),
                                        [](const VectorLine& l) { return l.to == kNextPoint; }));
    if (order.commit) vector(kPointVector) = vector(kNextPoint);
  }

  Lbfgs lbfgs_;
  const size_t n_;
  const uint32_t last_slot_;
  std::map<uint32_t, Point> vectors_;
};

struct Function {
  std::function<double(const Point&, Point&)> at;  // also sets the gradient
};

struct Result {
  Progress end = Progress::kSearching;
  std::vector<double> values;  // of the iterates
  int evaluations = 0;
};

Result minimize(Machine& lbfgs, const Function& f, size_t n, size_t iterations) {
  Result result;
  std::vector<float> gradient(n);
  while (result.evaluations < 2000) {
    ++result.evaluations;
    const double value = f.at(lbfgs.ask(), gradient);
    result.end = lbfgs.tell(value, gradient);
    if (result.end == Progress::kIterated || result.end == Progress::kConverged) result.values.push_back(value);
    if (result.end == Progress::kConverged || result.end == Progress::kStuck || result.values.size() > iterations)
      break;
  }
  return result;
}

// Nocedal and Wright's example of a curved valley, in n / 2 pairs of coordinates; its minimum 0 is at (1, …, 1).
const Function kRosenbrock{[](const Point& x, Point& g) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); i += 2) {
    const double a = x[i], b = x[i + 1], t = b - a * a;
    sum += 100 * t * t + (1 - a) * (1 - a);
    g[i] = static_cast<float>(-400 * a * t - 2 * (1 - a));
    g[i + 1] = static_cast<float>(200 * t);
  }
  return sum;
}};

TEST(Lbfgs, FindsTheEndOfACurvedValley) {
  for (const size_t n : {2u, 20u, 130u}) {
    Point start(n);
    for (size_t i = 0; i < n; ++i) start[i] = i % 2 == 0 ? -1.2f : 1.0f;
    Machine lbfgs({.history = 10, .tolerance = 1e-7}, start);
    const Result result = minimize(lbfgs, kRosenbrock, n, 200);
    EXPECT_NE(result.end, Progress::kSearching);
    EXPECT_LT(result.values.back(), 1e-5) << n;
    for (float x : lbfgs.iterate()) EXPECT_NEAR(x, 1.0f, 5e-3);
    EXPECT_LT(result.evaluations, 150) << "a quasi-Newton method takes some 40 iterations here";
    for (size_t i = 1; i < result.values.size(); ++i) EXPECT_LT(result.values[i], result.values[i - 1]);
  }
}

// Of a quadratic in n variables it needs little more than n iterations, whatever the scales are.
TEST(Lbfgs, ConvergesOnAQuadraticOfUnevenScales) {
  const Function f{[](const Point& x, Point& g) {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double scale = std::pow(4.0, static_cast<double>(i)), d = x[i] - static_cast<double>(i);
      sum += 0.5 * scale * d * d;
      g[i] = static_cast<float>(scale * d);
    }
    return sum;
  }};
  Machine lbfgs({.history = 10, .tolerance = 1e-9}, Point(6, 0.5f));
  const Result result = minimize(lbfgs, f, 6, 60);
  EXPECT_LT(result.values.back(), 1e-8);
  EXPECT_LT(result.values.size(), 40u);
}

TEST(Lbfgs, EveryStepFulfilsTheStrongWolfeConditions) {
  Machine lbfgs({.history = 5, .tolerance = 0}, {-1.2f, 1.0f, -1.2f, 1.0f});
  std::vector<float> gradient(4), before(4);
  double value = kRosenbrock.at(lbfgs.ask(), gradient);
  ASSERT_EQ(lbfgs.tell(value, gradient), Progress::kIterated);
  before = gradient;
  Point from(lbfgs.iterate().begin(), lbfgs.iterate().end());
  for (int iteration = 0; iteration < 15;) {
    const double now = kRosenbrock.at(lbfgs.ask(), gradient);
    if (lbfgs.tell(now, gradient) != Progress::kIterated) continue;
    double slope_before = 0, slope = 0;  // times the length of the step, along the step
    for (size_t i = 0; i < 4; ++i) {
      const double s = static_cast<double>(lbfgs.iterate()[i]) - from[i];
      slope_before += s * before[i];
      slope += s * gradient[i];
    }
    EXPECT_LE(now, value + 1e-4 * slope_before);
    EXPECT_LE(std::abs(slope), 0.9 * std::abs(slope_before));
    value = now;
    before = gradient;
    from.assign(lbfgs.iterate().begin(), lbfgs.iterate().end());
    ++iteration;
  }
}

// Where the function ends, at x ≤ 0, it is infinite or no number: the search turns back.
TEST(Lbfgs, ComesBackFromWhereTheFunctionIsNotFinite) {
  const Function f{[](const Point& x, Point& g) {
    g[0] = static_cast<float>(1 - 1e-3 / x[0]);
    return x[0] - 1e-3 * std::log(static_cast<double>(x[0]));
  }};
  Machine lbfgs({.history = 5, .tolerance = 1e-12}, {0.9f});
  const Result result = minimize(lbfgs, f, 1, 100);
  EXPECT_NEAR(lbfgs.iterate()[0], 1e-3, 1e-4);
  EXPECT_NE(result.end, Progress::kSearching);
}

TEST(Lbfgs, EndsAtOnceWhereTheGradientIsNothing) {
  Machine lbfgs({}, {1.0f, 1.0f});
  const Result result = minimize(lbfgs, kRosenbrock, 2, 10);
  EXPECT_EQ(result.end, Progress::kConverged);
  EXPECT_EQ(result.evaluations, 1);
}

// A gradient that is a lie: nothing along it is better.
TEST(Lbfgs, SaysThatItIsStuck) {
  const Function f{[](const Point& x, Point& g) {
    g[0] = -1.0f;
    return std::abs(static_cast<double>(x[0]));
  }};
  Machine lbfgs({}, {0.0f});
  const Result result = minimize(lbfgs, f, 1, 10);
  EXPECT_EQ(result.end, Progress::kStuck);
  EXPECT_EQ(lbfgs.iterate()[0], 0.0f);
  EXPECT_LT(result.evaluations, 60);
}

TEST(Lbfgs, GoesOnFromItsPairsToTheSameBits) {
  const size_t n = 34;
  Point start(n);
  for (size_t i = 0; i < n; ++i) start[i] = i % 2 == 0 ? -1.2f : 1.0f + 0.01f * static_cast<float>(i);
  const LbfgsOptions options{.history = 4, .tolerance = 1e-7};
  Machine whole(options, start);
  minimize(whole, kRosenbrock, n, 12);
  for (const size_t after : {1u, 2u, 7u}) {
    Machine first(options, start);
    minimize(first, kRosenbrock, n, after);
    EXPECT_EQ(first.pairs(), std::min<size_t>(after, 4));
    Machine second(options, first.iterate(), first.slots());
    minimize(second, kRosenbrock, n, 12 - after);
    EXPECT_EQ(second.iterate(), whole.iterate());
    EXPECT_EQ(second.slots(), whole.slots());
  }
}

}  // namespace
}  // namespace dtrain::optim
