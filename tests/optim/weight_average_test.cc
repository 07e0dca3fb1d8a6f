#include "optim/weight_average.h"

#include <gtest/gtest.h>

#include <cstring>

#include "config/parse.h"
#include "optim/optimizer_spec.h"

namespace dtrain::optim {
namespace {

std::shared_ptr<const Optimizer> from_toml(const std::string& text) {
  const auto table = config::parse_toml("lr = 0.1\n" + text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  OptimizerSpec spec = read_optimizer_spec(*table, diagnostics);
  EXPECT_TRUE(diagnostics.ok());
  return spec.optimizer;
}

TEST(WeightAverage, FollowsTheWeightsAndLeavesThemAlone) {
  constexpr size_t n = 5003;  // several pieces and a rest
  for (const char* toml : {"", "momentum = 0.9", "type = 'adam'", "type = 'adagrad'\ninitial_accumulator = 0.1"}) {
    const auto plain = from_toml(toml);
    const auto averaged = with_weight_average(plain, 0.75);
    ASSERT_EQ(averaged->slots(), plain->slots() + 1);
    EXPECT_EQ(averaged->slot_names().back(), "ema");
    std::vector<float> a(n), gradient(n);
    for (size_t i = 0; i < n; ++i) {
      a[i] = 1.0f / static_cast<float>(i + 3);
      gradient[i] = static_cast<float>(i % 37) * 0.017f - 0.3f;
    }
    std::vector<float> b = a, ema = a;
    std::vector<std::vector<float>> slots_a(averaged->slots(), std::vector<float>(n)), slots_b = slots_a;
    std::vector<float*> at_a, at_b;
    for (size_t s = 0; s < slots_a.size(); ++s) {
      at_a.push_back(slots_a[s].data());
      at_b.push_back(slots_b[s].data());
    }
    for (int64_t step = 0; step < 3; ++step) {
      plain->update({0.1, step, 0.5f}, n, gradient.data(), a.data(), a.data(), at_a.data());
      averaged->update({0.1, step, 0.5f}, n, gradient.data(), b.data(), b.data(), at_b.data());
      for (size_t i = 0; i < n; ++i) ema[i] = 0.75f * ema[i] + 0.25f * a[i];
    }
    EXPECT_EQ(a, b) << toml;
    EXPECT_EQ(slots_b.back(), ema) << toml;
    slots_b.pop_back();
    slots_a.pop_back();
    EXPECT_EQ(slots_a, slots_b) << toml;
  }
}

TEST(WeightAverage, HandsOnWhatNormsAreFor) {
  const auto averaged = with_weight_average(from_toml("type = 'lamb'"), 0.9);
  EXPECT_EQ(averaged->norm_need(), NormNeed::kDirection);
  EXPECT_EQ(averaged->ratio({"w", {2, 2}, ParameterKind::kTrainable}, 6.0, 2.0), 3.0);
  float w = 1.0f, direction = 0.5f, mean = 0.0f, square = 0.0f, ema = 0.0f;
  float* slots[] = {&mean, &square, &ema};
  averaged->prepare({0.1, 0, 1.0f}, 1, &direction, &w, slots);
  EXPECT_NEAR(direction, 1.0f, 1e-5f);
  EXPECT_NE(square, 0.0f);
  averaged->update({0.1, 0, 1.0f, 1.0, 3.0}, 1, &direction, &w, &w, slots);
  EXPECT_NEAR(w, 0.7f, 1e-5f);
  EXPECT_NEAR(ema, 0.9f + 0.1f * 0.7f, 1e-5f);
}

}  // namespace
}  // namespace dtrain::optim
