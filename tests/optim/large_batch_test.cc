// The optimizers that need norms, against values that NumPy computed in fp64 by the papers' formulas.
#include <gtest/gtest.h>

#include <cmath>
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
  EXPECT_TRUE(diagnostics.ok()) << (diagnostics.ok() ? "" : diagnostics.status().error().message);
  return spec.optimizer;
}

double norm(const std::vector<float>& values, double scale = 1.0) {
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum) * scale;
}

struct State {
  State(const Optimizer& optimizer, std::vector<float> start)
      : values(std::move(start)), slots(optimizer.slots(), std::vector<float>(values.size(), 0.0f)) {}
  std::vector<float*> pointers(size_t offset = 0) {
    std::vector<float*> out;
    for (auto& s : slots) out.push_back(s.data() + offset);
    return out;
  }
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

// One step as a server and the coordinator make it, cut into pieces of `piece` elements.
void step(const Optimizer& optimizer, const ParameterInfo& p, State& state, UpdateContext context,
          std::vector<float> gradient, size_t piece) {
  const size_t n = gradient.size();
  const double values = norm(state.values);
  double other = norm(gradient, context.scale);
  if (optimizer.norm_need() == NormNeed::kDirection) {
    for (size_t at = 0; at < n; at += piece)
      optimizer.prepare(context, std::min(piece, n - at), gradient.data() + at, state.values.data() + at,
                        state.pointers(at).data());
    other = norm(gradient);
  }
  context.ratio = optimizer.ratio(p, values, other);
  for (size_t at = 0; at < n; at += piece) {
    float* const to = state.values.data() + at;
    optimizer.update(context, std::min(piece, n - at), gradient.data() + at, to, to, state.pointers(at).data());
  }
}

struct Case {
  const char* toml;
  double rate;
  Shape shape;
  std::vector<double> expected;
};

class LargeBatchRule : public testing::TestWithParam<Case> {};

TEST_P(LargeBatchRule, FollowsThePaper) {
  const Case& c = GetParam();
  const auto optimizer = from_toml(c.toml);
  const ParameterInfo p{"p", c.shape, ParameterKind::kTrainable};
  State state(*optimizer, {1.0f, -0.5f, 0.25f, 2.0f, -3.0f, 0.75f});
  const float base[] = {0.1f, -0.2f, 0.3f, -0.4f, 0.5f, 0.6f};
  for (int64_t t = 0; t < 3; ++t) {
    std::vector<float> gradient(6);
    for (size_t i = 0; i < 6; ++i)
      gradient[i] = 4 * (base[i] * static_cast<float>(t + 1) - 0.05f * static_cast<float>(t) * state.values[i]);
    step(*optimizer, p, state, {c.rate, t, 0.25f}, gradient, 6);
  }
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(state.values[i], c.expected[i], 2e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, LargeBatchRule,
    testing::Values(Case{"type = 'lars'",
                         0.1,
                         {2, 3},
                         {0.999905295, -0.499777124, 0.249654531, 2.000512684, -3.000652011, 0.749314639}},
                    Case{"type = 'lars'\ntrust = 0.02\nmomentum = 0.9\nweight_decay = 0.01",
                         0.5,
                         {2, 3},
                         {0.979976710, -0.457667037, 0.185738429, 2.089238690, -3.112310489, 0.621857921}},
                    Case{"type = 'lars'\ntrust = 0.02\nmomentum = 0.9\nweight_decay = 0.01",
                         0.1,
                         {6},
                         {0.918373904, -0.315895912, -0.033106764, 2.409911968, -3.519340592, 0.187261788}},
                    Case{"type = 'lamb'",
                         0.1,
                         {2, 3},
                         {0.504485137, -0.010283142, -0.238602773, 2.483769150, -3.483070715, 0.260606882}},
                    Case{"type = 'lamb'\nbeta1 = 0.8\nbeta2 = 0.95\nepsilon = 1e-4\nweight_decay = 0.05",
                         0.1,
                         {2, 3},
                         {0.475867153, 0.007278069, -0.250171978, 2.439801514, -3.414157341, 0.236587221}},
                    Case{"type = 'lamb'\nbeta1 = 0.8\nbeta2 = 0.95\nepsilon = 1e-4\nweight_decay = 0.05",
                         0.1,
                         {6},
                         {0.687572537, -0.197780689, -0.047919222, 2.261987559, -3.246710134, 0.444285354}}));

TEST(LargeBatch, SameBitsInPieces) {
  for (const char* toml :
       {"type = 'lars'\nweight_decay = 0.1", "type = 'lars'\nmomentum = 0.9", "type = 'lamb'\nweight_decay = 0.1"}) {
    const auto optimizer = from_toml(toml);
    const ParameterInfo p{"p", {17, 59}, ParameterKind::kTrainable};
    std::vector<float> start(17 * 59), gradient(start.size());
    for (size_t i = 0; i < start.size(); ++i) {
      start[i] = 1.0f / static_cast<float>(i + 3);
      gradient[i] = static_cast<float>(i % 37) * 0.017f - 0.3f;
    }
    State whole(*optimizer, start), pieces(*optimizer, start);
    for (int64_t t = 0; t < 3; ++t) {
      step(*optimizer, p, whole, {0.1, t, 0.5f}, gradient, gradient.size());
      step(*optimizer, p, pieces, {0.1, t, 0.5f}, gradient, 29);
    }
    EXPECT_EQ(std::memcmp(whole.values.data(), pieces.values.data(), start.size() * sizeof(float)), 0) << toml;
    EXPECT_EQ(whole.slots, pieces.slots) << toml;
    EXPECT_NE(whole.values, start);
  }
}

TEST(LargeBatch, NoRatioOfWhatHasOneAxisOrNoLength) {
  for (const char* type : {"type = 'lars'", "type = 'lamb'"}) {
    const auto optimizer = from_toml(type);
    const ParameterInfo weight{"w", {2, 3}, ParameterKind::kTrainable}, bias{"b", {6}, ParameterKind::kTrainable};
    EXPECT_EQ(optimizer->ratio(bias, 3.0, 2.0), 1.0);
    EXPECT_EQ(optimizer->ratio(weight, 0.0, 2.0), 1.0);
    EXPECT_EQ(optimizer->ratio(weight, 3.0, 0.0), 1.0);
    EXPECT_NE(optimizer->ratio(weight, 3.0, 2.0), 1.0);
  }
  const ParameterInfo half{"w", {2, 3}, ParameterKind::kTrainable, 1.0f, 0.5f};
  EXPECT_DOUBLE_EQ(from_toml("type = 'lars'\ntrust = 0.5\nweight_decay = 0.25")->ratio(half, 4.0, 1.0),
                   0.5 * 4.0 / (1.0 + 0.125 * 4.0 + 1e-8));
}

}  // namespace
}  // namespace dtrain::optim
