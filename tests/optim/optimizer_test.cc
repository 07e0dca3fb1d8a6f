// Optimizers against values that PyTorch computed in fp64 by the same definitions.
#include "optim/optimizer.h"

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

// A parameter with its slots.
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

struct Case {
  const char* toml;
  std::vector<double> expected;
};

class Definitions : public testing::TestWithParam<Case> {};

TEST_P(Definitions, MatchPyTorch) {
  const auto optimizer = from_toml(GetParam().toml);
  State state(*optimizer, {1.0f, -0.5f, 0.25f, 2.0f, -3.0f});
  const float base[] = {0.1f, -0.2f, 0.3f, -0.4f, 0.5f};
  for (int64_t step = 0; step < 3; ++step) {
    std::vector<float> gradient(5), next(5);
    for (size_t i = 0; i < 5; ++i)
      gradient[i] = 4 * (base[i] * static_cast<float>(step + 1) - 0.05f * static_cast<float>(step) * state.values[i]);
    optimizer->update({0.1, step, 0.25f}, 5, gradient.data(), state.values.data(), next.data(),
                      state.pointers().data());
    state.values = next;
  }
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(state.values[i], GetParam().expected[i], 2e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(
    All, Definitions,
    testing::Values(Case{"", {0.954699500, -0.386824000, 0.072711000, 2.271502000, -3.346902500}},
                    Case{"type = 'sgd'\nweight_decay = 0.01",
                         {0.951712604, -0.385390762, 0.072074661, 2.265287368, -3.337620692}},
                    Case{"momentum = 0.9\nweight_decay = 0.01",
                         {0.918373904, -0.315895912, -0.033106764, 2.409911968, -3.519340592}},
                    Case{"momentum = 0.9\nweight_decay = 0.01\nnesterov = true",
                         {0.877652137, -0.218458610, -0.184593974, 2.636774109, -3.808249524}},
                    Case{"type = 'adam'\nbeta1 = 0.8\nbeta2 = 0.95\nepsilon = 1e-6\nweight_decay = 0.01",
                         {0.700241913, -0.203402789, -0.045844401, 2.292837854, -3.292344844}},
                    Case{"type = 'adamw'\nbeta1 = 0.8\nbeta2 = 0.95\nepsilon = 1e-6\nweight_decay = 0.05",
                         {0.687341967, -0.197677024, -0.047987017, 2.262034954, -3.246747667}},
                    Case{"type = 'adagrad'", {0.739572430, -0.231695880, -0.019487322, 2.273494509, -3.274007241}},
                    Case{"type = 'adagrad'\nlr_decay = 0.1\nweight_decay = 0.01\ninitial_accumulator = 0.3\n"
                         "epsilon = 1e-6",
                         {0.926374270, -0.362999646, 0.079379396, 2.194779117, -3.208300575}},
                    Case{"type = 'rmsprop'", {-1.763877885, 2.251538173, -2.491285307, 4.763205684, -5.762687848}},
                    Case{"type = 'rmsprop'\ndecay = 0.9\nepsilon = 1e-6\nweight_decay = 0.01\nmomentum = 0.5",
                         {-0.219505004, 0.741519112, -0.994431906, 3.260746914, -4.262579385}},
                    Case{"type = 'rmsprop'\ndecay = 0.9\ncentered = true",
                         {0.065079741, 0.445837703, -0.696801777, 2.955497303, -3.956291418}},
                    Case{"type = 'rmsprop'\ndecay = 0.9\ncentered = true\nmomentum = 0.5",
                         {-0.341431731, 0.854366957, -1.105330034, 3.366273015, -4.367223644}},
                    Case{"type = 'adadelta'", {0.998864866, -0.498806355, 0.248797075, 2.001228494, -3.001232052}},
                    Case{"type = 'adadelta'\nrho = 0.8\nepsilon = 1e-4\nweight_decay = 0.01",
                         {0.992059371, -0.491533456, 0.241441756, 2.008764847, -3.008796759}}));

constexpr const char* kAll[] = {"",
                                "weight_decay = 0.1",
                                "momentum = 0.9",
                                "momentum = 0.9\nnesterov = true",
                                "type = 'adam'\nweight_decay = 0.1",
                                "type = 'adamw'\nweight_decay = 0.1",
                                "type = 'adagrad'\ninitial_accumulator = 0.1\nweight_decay = 0.1",
                                "type = 'adadelta'\nweight_decay = 0.1",
                                "type = 'rmsprop'\nweight_decay = 0.1",
                                "type = 'rmsprop'\nmomentum = 0.9",
                                "type = 'rmsprop'\ncentered = true",
                                "type = 'rmsprop'\ncentered = true\nmomentum = 0.9"};

// The bits depend neither on how the elements are cut into calls nor on whether the update is in place.
TEST(Optimizer, SameBitsInPiecesAndInPlace) {
  for (const char* toml : kAll) {
    const auto optimizer = from_toml(toml);
    constexpr size_t n = 1003;
    std::vector<float> start(n), gradient(n);
    for (size_t i = 0; i < n; ++i) {
      start[i] = 1.0f / static_cast<float>(i + 3);
      gradient[i] = static_cast<float>(i % 37) * 0.017f - 0.3f;
    }
    State whole(*optimizer, start), pieces(*optimizer, start);
    for (int64_t step = 0; step < 3; ++step) {
      const UpdateContext context{0.01, step, 0.125f};
      std::vector<float> next(n);
      optimizer->update(context, n, gradient.data(), whole.values.data(), next.data(), whole.pointers().data());
      whole.values = next;
      for (size_t at = 0, size = 1; at < n; at += size, size = size * 2 + 1) {
        size = std::min(size, n - at);
        float* values = pieces.values.data() + at;
        optimizer->update(context, size, gradient.data() + at, values, values, pieces.pointers(at).data());
      }
    }
    EXPECT_EQ(std::memcmp(whole.values.data(), pieces.values.data(), n * sizeof(float)), 0) << toml;
    for (size_t s = 0; s < whole.slots.size(); ++s) EXPECT_EQ(whole.slots[s], pieces.slots[s]) << toml;
  }
}

// A parameter's own factor on weight_decay is as another weight_decay.
TEST(Optimizer, DecayMultiplier) {
  for (const char* keys : {"", "momentum = 0.9", "type = 'adam'", "type = 'adamw'", "type = 'adagrad'",
                           "type = 'adadelta'", "type = 'rmsprop'"}) {
    const std::string type(keys);
    const auto half = from_toml(type + "\nweight_decay = 0.125"), whole = from_toml(type + "\nweight_decay = 0.25");
    const std::vector<float> gradient{0.1f, -0.2f, 0.3f}, start{3.0f, -1.0f, 2.0f};
    State a(*half, start), b(*half, start), c(*whole, start);
    for (int64_t step = 0; step < 2; ++step) {  // the first step of some is that of the sign
      const auto move = [&](const Optimizer& optimizer, State& state, double multiplier) {
        optimizer.update({0.1, step, 1.0f + static_cast<float>(step), multiplier}, 3, gradient.data(),
                         state.values.data(), state.values.data(), state.pointers().data());
      };
      move(*half, a, 2.0);
      move(*half, b, 1.0);
      move(*whole, c, 1.0);
    }
    EXPECT_EQ(a.values, c.values) << keys;
    EXPECT_NE(a.values, b.values) << keys;
  }
}

// The mean of squares less the square of the mean is 0 where a gradient never changes: not less by rounding.
TEST(Optimizer, CenteredRmsPropOfAConstantGradient) {
  const auto optimizer = from_toml("type = 'rmsprop'\ncentered = true\ndecay = 0.5");
  State state(*optimizer, std::vector<float>(64, 1.0f));
  std::vector<float> gradient(64);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.1f + 0.013f * static_cast<float>(i);
  for (int64_t step = 0; step < 60; ++step)
    optimizer->update({1e-9, step, 1.0f}, 64, gradient.data(), state.values.data(), state.values.data(),
                      state.pointers().data());
  for (float v : state.values) EXPECT_TRUE(std::isfinite(v));
}

TEST(Optimizer, SlotsCarryPyTorchsNames) {
  EXPECT_TRUE(from_toml("")->slot_names().empty());
  EXPECT_EQ(from_toml("momentum = 0.5")->slot_names(), std::vector<std::string>{"momentum_buffer"});
  EXPECT_EQ(from_toml("type = 'adamw'")->slot_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(from_toml("type = 'adagrad'")->slot_names(), std::vector<std::string>{"sum"});
  EXPECT_EQ(from_toml("type = 'adadelta'")->slot_names(), (std::vector<std::string>{"square_avg", "acc_delta"}));
  EXPECT_EQ(from_toml("type = 'rmsprop'")->slot_names(), std::vector<std::string>{"square_avg"});
  EXPECT_EQ(from_toml("type = 'rmsprop'\ncentered = true\nmomentum = 0.1")->slot_names(),
            (std::vector<std::string>{"square_avg", "momentum_buffer", "grad_avg"}));
}

}  // namespace
}  // namespace dtrain::optim
