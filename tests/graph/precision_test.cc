// Products of BF16 factors: both backends round the same factors and add up in fp32 or better.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/executable.h"
#include "ops/cpu/fingerprint.h"
#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

constexpr char kLayers[] = R"({ name = "c", type = "conv2d", filters = 32, kernel = 3, pad = 1, bias = false },
  { type = "batch_norm", activation = "tanh" }, { type = "conv2d", filters = 20, kernel = 3, stride = 2 },
  { type = "conv2d", filters = 40, kernel = 3, groups = 20, pad = 1, activation = "tanh" },
  { type = "avg_pool2d", kernel = 2 }, { type = "flatten" }, { type = "linear", units = 600, activation = "tanh" },
  { type = "linear", units = 4 }, { type = "softmax_cross_entropy" },)";

struct Outcome {
  double loss = 0;
  std::vector<std::vector<float>> outputs;  // of each parameter
};

Outcome run(const Network& network, const std::string& backend, DType compute) {
  auto program = Executable::compile(network, Mode::kTrain, 6, backend, {.compute = compute});
  EXPECT_TRUE(program) << program.error().message;
  TrainingData data(network, 6);
  Observer nobody;
  Outcome outcome;
  EXPECT_TRUE((*program)->run(data.feed(), data.binding(), data.context(), nobody));
  outcome.loss = data.mean_loss();
  for (size_t p = 0; p < network.parameters().size(); ++p)
    outcome.outputs.emplace_back(data.output(p).begin(), data.output(p).end());
  return outcome;
}

// |a − b| / |b|, over all elements.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 1e-20;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(Precision, Bf16FactorsAndFp32Sums) {
  if (!ops::cpu::has_bf16()) GTEST_SKIP() << "no bf16 instructions";
  const NetworkText read = read_network("[3, 16, 16]", kLayers);
  ASSERT_TRUE(read.network) << read.error;
  const Outcome exact = run(*read.network, "reference", DType::kF32);
  const Outcome wanted = run(*read.network, "reference", DType::kBF16);
  const Outcome got = run(*read.network, "cpu", DType::kBF16);
  EXPECT_NEAR(got.loss, wanted.loss, 2e-3);
  bool rounded = false;
  for (size_t p = 0; p < wanted.outputs.size(); ++p) {
    const std::string& name = read.network->parameters()[p].name;
    // A factor that lies between two bf16 numbers may be rounded to either, after sums in another order.
    EXPECT_LT(distance(got.outputs[p], wanted.outputs[p]), 0.02) << name;
    EXPECT_LT(distance(got.outputs[p], exact.outputs[p]), 0.1) << name;
    rounded = rounded || distance(got.outputs[p], exact.outputs[p]) > 1e-4;
  }
  EXPECT_TRUE(rounded) << "as fine as fp32";
}

TEST(Precision, TheSameBitsFromRunToRun) {
  if (!ops::cpu::has_bf16()) GTEST_SKIP() << "no bf16 instructions";
  const NetworkText read = read_network("[3, 16, 16]", kLayers);
  ASSERT_TRUE(read.network) << read.error;
  EXPECT_EQ(run(*read.network, "cpu", DType::kBF16).outputs, run(*read.network, "cpu", DType::kBF16).outputs);
}

}  // namespace
}  // namespace dtrain::graph
