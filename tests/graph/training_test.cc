// Whole networks, trained for a few steps by plain gradient descent on each backend.
#include <gtest/gtest.h>

#include "graph/executable.h"
#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

class Training : public testing::TestWithParam<const char*> {
 protected:
  // The losses of `steps` steps on one batch.
  std::vector<double> train(const std::string& input, const std::string& layers, int steps, float rate) {
    const NetworkText read = read_network(input, layers);
    EXPECT_TRUE(read.network) << read.error;
    const Network& network = *read.network;
    auto executable = Executable::compile(network, Mode::kTrain, 8, GetParam());
    EXPECT_TRUE(executable) << executable.error().message;
    TrainingData data(network, 8);
    Descent descent(network, data, **executable, rate);
    std::vector<double> losses;
    for (int s = 0; s < steps; ++s) {
      EXPECT_TRUE((*executable)->run(data.feed(), data.binding(), data.context(), descent));
      losses.push_back(data.mean_loss());
    }
    auto eval = Executable::compile(network, Mode::kEval, 8, GetParam());
    EXPECT_TRUE(eval) << eval.error().message;
    Observer nobody;
    Binding binding = data.binding();
    binding.outputs = {};
    EXPECT_TRUE((*eval)->run(data.feed(), binding, data.context(), nobody));
    eval_loss_ = data.mean_loss();
    correct_ = data.metrics().correct;
    return losses;
  }

  double eval_loss_ = 0, correct_ = 0;

 private:
  // Applies each gradient as soon as it may, while backward goes on.
  class Descent : public Observer {
   public:
    Descent(const Network& network, TrainingData& data, Executable& executable, float rate)
        : network_(network), data_(data), executable_(executable), rate_(rate) {}

    void ready(const ParameterOutput& out) override {
      const auto i = static_cast<size_t>(out.parameter);
      const bool statistic = network_.parameters()[i].kind == ParameterKind::kStatistic;
      for (size_t e = 0; e < data_.parameter(i).size(); ++e) {
        float& w = data_.parameter(i)[e];
        w = statistic ? data_.output(i)[e] : w - rate_ * data_.output(i)[e];
      }
      executable_.parameter_changed(out.parameter);
    }

   private:
    const Network& network_;
    TrainingData& data_;
    Executable& executable_;
    float rate_;
  };
};

TEST_P(Training, Mlp) {
  const auto losses = train("[12]", R"({ type = "linear", units = 32, activation = "relu" },
                                       { type = "linear", units = 32 }, { type = "tanh" },
                                       { type = "linear", units = 5 }, { type = "softmax_cross_entropy" },)",
                            60, 0.3f);
  EXPECT_LT(losses.back(), 0.1 * losses.front());
  EXPECT_LT(eval_loss_, losses.back());
  EXPECT_EQ(correct_, 8);
}

TEST_P(Training, ConvolutionalNetwork) {
  const auto losses = train("[3, 12, 12]", R"({ type = "conv2d", filters = 8, kernel = 3, pad = 1 }, { type = "relu" },
                              { type = "max_pool2d", kernel = 2 },
                              { type = "conv2d", filters = 8, kernel = 3, pad = 1, activation = "relu" },
                              { type = "flatten" }, { type = "linear", units = 5 }, { type = "softmax_cross_entropy" },)",
                            30, 0.2f);
  EXPECT_LT(losses.back(), 0.1 * losses.front());
  EXPECT_EQ(correct_, 8);
}

TEST_P(Training, ResidualNetwork) {
  const auto losses =
      train("[3, 8, 8]", R"({ name = "a", type = "conv2d", filters = 8, kernel = 3, pad = 1, bias = false },
                            { name = "ab", type = "batch_norm", activation = "relu" },
                            { type = "conv2d", filters = 8, kernel = 3, pad = 1, bias = false },
                            { name = "bb", type = "batch_norm" },
                            { type = "add", inputs = ["bb", "ab"], activation = "relu" },
                            { type = "global_avg_pool" }, { type = "linear", units = 5 }, { type = "softmax_cross_entropy" },)",
            60, 0.3f);
  EXPECT_LT(losses.back(), 0.1 * losses.front());
}

INSTANTIATE_TEST_SUITE_P(Backends, Training, testing::Values("reference", "cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dtrain::graph
