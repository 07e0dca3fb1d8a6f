// What the engine does where a worker's gradient is not simply a part of its step's: clipping of pushes, sums over
// several works, descending between fetches, rounds of own steps; against plain loops.
#include <cmath>

#include "config/parse.h"
#include "engine_fixture.h"
#include "optim/optimizer_spec.h"

namespace dtrain::worker {
namespace {

using ps::Node;

std::shared_ptr<const optim::Optimizer> optimizer_of(const std::string& toml) {
  const auto table = config::parse_toml("lr = 1\n" + toml, "run.toml");
  config::Diagnostics diagnostics;
  auto spec = optim::read_optimizer_spec(*table, diagnostics);
  EXPECT_TRUE(diagnostics.ok());
  return spec.optimizer;
}

class EngineModesTest : public StepEngineTest {
 protected:
  bool trainable(size_t p) const { return network_.parameters()[p].kind == ParameterKind::kTrainable; }
  // The norm over all trainable gradients.
  double norm(const Sums& sums) const {
    double squares = 0;
    for (size_t p = 0; p < sums.gradients.size(); ++p)
      for (float g : sums.gradients[p]) squares += trainable(p) ? static_cast<double>(g) * g : 0.0;
    return std::sqrt(squares);
  }
  void expect_gradients(const std::vector<Values>& wanted) const {
    ASSERT_EQ(port_.sums.gradients.size(), wanted.size());
    for (size_t p = 0; p < wanted.size(); ++p)
      EXPECT_TRUE(same_bits(port_.sums.gradients[p], wanted[p])) << network_.parameters()[p].name;
  }
  // A round of `steps` from the values in memory.
  Sums round(int64_t first, uint32_t micro_batch, int64_t steps, const optim::Optimizer& optimizer,
             std::optional<double> clip = std::nullopt) {
    ParameterStorage now(network_.parameters());
    std::vector<ParameterStorage> slots;
    for (size_t s = 0; s < optimizer.slots(); ++s) slots.emplace_back(network_.parameters());
    const size_t n = network_.parameters().size();
    for (size_t p = 0; p < n; ++p) {
      std::copy_n(memory_.pointers()[p], elements(p), now.pointers()[p]);
      for (ParameterStorage& slot : slots) std::fill_n(slot.pointers()[p], elements(p), 0.0F);
    }
    Sums out;
    for (int64_t s = 0; s < steps; ++s) {
      const Sums step = single(train(first + s, {micro_batch, micro_batch + 1}), micro_batch, now);
      out.metrics += step.metrics;
      const double factor = clip ? optim::clip_factor(norm(step), *clip) : 1.0;
      for (size_t p = 0; p < n; ++p) {
        if (!trainable(p)) {
          std::copy(step.gradients[p].begin(), step.gradients[p].end(), now.pointers()[p]);
          continue;
        }
        std::vector<float*> at;
        for (ParameterStorage& slot : slots) at.push_back(slot.pointers()[p]);
        optimizer.update({0.01 * static_cast<double>(first + s + 1), s, static_cast<float>(factor), 1.0F}, elements(p),
                         step.gradients[p].data(), now.pointers()[p], now.pointers()[p], at.data());
      }
    }
    for (size_t p = 0; p < n; ++p) {
      Values& result = out.gradients.emplace_back(elements(p));
      for (size_t i = 0; i < result.size(); ++i)
        result[i] = trainable(p) ? memory_.pointers()[p][i] - now.pointers()[p][i] : now.pointers()[p][i];
    }
    return out;
  }
};

TEST_P(EngineModesTest, EachPushIsClippedByItsOwnNorm) {
  make(4, 0, [](StepEngine::Setup& s) { s.clip_norm = 0.01; });
  const Work work = train(3, {2, 3});
  ASSERT_TRUE(run(work));
  const Sums whole = single(work, 2);
  ASSERT_GT(norm(whole), 0.1) << "or nothing is clipped";
  EXPECT_NEAR(norm(port_.sums), 0.01, 1e-6);
  EXPECT_EQ(port_.sums.metrics, whole.metrics);
  for (size_t p = 0; p < whole.gradients.size(); ++p) {
    if (!trainable(p)) {
      EXPECT_TRUE(same_bits(port_.sums.gradients[p], whole.gradients[p])) << "a statistic is no gradient";
      continue;
    }
    const auto factor = static_cast<float>(optim::clip_factor(norm(whole), 0.01));
    for (size_t i = 0; i < whole.gradients[p].size(); ++i)
      ASSERT_NEAR(port_.sums.gradients[p][i], whole.gradients[p][i] * factor, 1e-8) << network_.parameters()[p].name;
  }
}

TEST_P(EngineModesTest, AShortGradientIsLeftAsItIs) {
  make(4, 0, [](StepEngine::Setup& s) { s.clip_norm = 1e6; });
  expect_right(train(3, {2, 3}));
}

// Works that do not push are summed, in the order of their coming, into the one that does; of statistics the last
// counts.
TEST_P(EngineModesTest, SeveralWorksAreOnePush) {
  make(4, 0, [](StepEngine::Setup& s) { s.more_sets = 1; });
  const auto work = [](int64_t step, uint32_t k, bool push) {
    return Work{wire::StepKind::kTrain, step, {k, k + 1}, push};
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(run(work(1, 3, false)));
    EXPECT_EQ(port_.left, std::vector<std::string>{"metrics"});
    ASSERT_TRUE(run(work(2, 0, false)));
    EXPECT_EQ(port_.left, std::vector<std::string>{"metrics"});
    ASSERT_TRUE(run(work(2, 1, true)));
    EXPECT_EQ(port_.memory_waits, 0);
    Sums wanted = single(train(1, {3, 4}), 3);
    for (const uint32_t k : {0U, 1U}) {
      const Sums next = single(train(2, {k, k + 1}), k);
      for (size_t p = 0; p < wanted.gradients.size(); ++p)
        for (size_t i = 0; i < wanted.gradients[p].size(); ++i)
          wanted.gradients[p][i] = trainable(p) ? next.gradients[p][i] + wanted.gradients[p][i] : next.gradients[p][i];
      wanted.metrics = next.metrics;
    }
    expect_gradients(wanted.gradients);
    EXPECT_EQ(port_.sums.metrics, wanted.metrics) << "those of each work leave with it";
    ASSERT_TRUE(run(work(2, 2, true)));
    expect_gradients(single(train(2, {2, 3}), 2).gradients);
  }
}

// Between fetches a worker goes down its own gradient, on parameter memory itself.
TEST_P(EngineModesTest, DescendsBetweenFetches) {
  make(4, 0, [&](StepEngine::Setup& s) {
    s.descends = s.any_version = true;
    s.memory.assign(memory_.pointers().begin(), memory_.pointers().end());
    s.more_sets = 1;
  });
  for (uint32_t k = 0; k < 3; ++k) {
    const Work work = train(5, {k, k + 1});
    const Sums wanted = single(work, k);
    std::vector<Values> memory;
    for (size_t p = 0; p < wanted.gradients.size(); ++p) {
      Values& v = memory.emplace_back(memory_.pointers()[p], memory_.pointers()[p] + elements(p));
      const auto rate = static_cast<float>(0.01 * 6);
      for (size_t i = 0; i < v.size(); ++i)
        v[i] = trainable(p) ? v[i] - rate * wanted.gradients[p][i] : wanted.gradients[p][i];
    }
    ASSERT_TRUE(run(work));
    expect_gradients(wanted.gradients);
    for (size_t p = 0; p < memory.size(); ++p)
      EXPECT_TRUE(same_bits({memory_.pointers()[p], elements(p)}, memory[p])) << network_.parameters()[p].name;
  }
}

// Other parameters under the same step: what was made of the former ones is made anew.
TEST_P(EngineModesTest, ParametersMayDifferWithinAStep) {
  make(4, 0, [](StepEngine::Setup& s) { s.any_version = true; });
  expect_right(train(5, {0, 1}));
  set_version(1);
  expect_right(train(5, {1, 2}));
}

TEST_P(EngineModesTest, ARoundIsAFunctionOfItsFirstVersion) {
  for (const char* toml : {"type = 'sgd'\nmomentum = 0.9\nweight_decay = 0.01", "type = 'adam'"}) {
    const auto optimizer = optimizer_of(toml);
    make(4, 1, [&](StepEngine::Setup& s) {
      s.own_steps = 3;
      s.optimizer = optimizer;
    });
    for (const int64_t first : {0, 3}) {
      set_version(static_cast<uint64_t>(first));
      const Work work = train(first, {2, 3});
      ASSERT_TRUE(run(work));
      const Sums wanted = round(first, 2, 3, *optimizer);
      expect_gradients(wanted.gradients);
      EXPECT_EQ(port_.sums.metrics, wanted.metrics);
      EXPECT_EQ(port_.awaited.size(), network_.parameters().size()) << "they are asked for once a round";
      expect_right(eval(first, {0, 1}));
    }
  }
}

TEST_P(EngineModesTest, RoundsAreSummedAlongTheTree) {
  const auto optimizer = optimizer_of("momentum = 0.5");
  make(4, 0, [&](StepEngine::Setup& s) {
    s.own_steps = 2;
    s.optimizer = optimizer;
  });
  ASSERT_TRUE(run(train(4, {0, 4})));
  std::vector<Sums> rounds;
  for (uint32_t k = 0; k < 4; ++k) rounds.push_back(round(4, k, 2, *optimizer));
  const auto add = [](Sums a, const Sums& b) {
    for (size_t p = 0; p < a.gradients.size(); ++p)
      for (size_t i = 0; i < a.gradients[p].size(); ++i) a.gradients[p][i] += b.gradients[p][i];
    a.metrics += b.metrics;
    return a;
  };
  const Sums wanted = add(add(rounds[0], rounds[1]), add(rounds[2], rounds[3]));
  expect_gradients(wanted.gradients);
  EXPECT_EQ(port_.sums.metrics, wanted.metrics);
}

TEST_P(EngineModesTest, EachOwnStepIsClipped) {
  const auto optimizer = optimizer_of("");
  make(1, 0, [&](StepEngine::Setup& s) {
    s.own_steps = 2;
    s.optimizer = optimizer;
    s.clip_norm = 0.01;
  });
  ASSERT_TRUE(run(train(0, {0, 1})));
  const Sums wanted = round(0, 0, 2, *optimizer, 0.01), free = round(0, 0, 2, *optimizer);
  EXPECT_LT(norm(wanted), 0.1 * norm(free)) << "or nothing is clipped";
  for (size_t p = 0; p < wanted.gradients.size(); ++p)
    for (size_t i = 0; i < wanted.gradients[p].size(); ++i)
      ASSERT_NEAR(port_.sums.gradients[p][i], wanted.gradients[p][i], 1e-6) << network_.parameters()[p].name;
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineModesTest, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dtrain::worker
