#include "tests/graph_layers/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/graph/network_text.h"
#include "tests/graph/training_data.h"

namespace dtrain::graph {
namespace {

std::string wrapped(const std::string& input, const std::string& layers) {
  const bool image = std::count(input.begin(), input.end(), ',') == 2;
  const std::string channels = input.substr(1, input.find_first_of(",]") - 1);
  const std::string last = input.substr(input.find_last_of("[,") + 1, input.size() - input.find_last_of("[,") - 2);
  const std::string front =
      image ? fmt::format(R"({{ name = "front", type = "conv2d", filters = {}, kernel = 1 }},)", channels)
            : fmt::format(R"({{ name = "front", type = "linear", units = {} }},)", last);
  return front + "\n" + layers +
         R"(
{ name = "flat", type = "flatten" },
{ name = "out", type = "linear", units = 3 },
{ name = "loss", type = "softmax_cross_entropy" },)";
}

class Runner {
 public:
  Runner(const Network& network, Mode mode, int64_t n, const std::string& backend) {
    auto compiled = Executable::compile(network, mode, n, backend);
    if (!compiled) {
      ADD_FAILURE() << backend << ": " << compiled.error().message;
      return;
    }
    executable_ = std::move(*compiled);
  }

  bool ok() const { return executable_ != nullptr; }

  double loss(TrainingData& data) {
    Observer observer;
    const Status status = executable_->run(data.feed(), data.binding(), data.context(), observer);
    EXPECT_TRUE(status.has_value());
    return data.mean_loss();
  }

  void changed(size_t p) { executable_->parameter_changed(static_cast<ParameterIndex>(p)); }

 private:
  std::unique_ptr<Executable> executable_;
};

float largest(std::span<const float> values) {
  float m = 0;
  for (float v : values) m = std::max(m, std::abs(v));
  return m;
}

// d loss / d parameter[e] by central differences.
double slope(Runner& run, TrainingData& data, size_t p, size_t e, float h) {
  float& w = data.parameter(p)[e];
  const float old = w;
  w = old + h;
  run.changed(p);
  const double up = run.loss(data), top = w;
  w = old - h;
  run.changed(p);
  const double down = run.loss(data), bottom = w;
  w = old;
  run.changed(p);
  return (up - down) / (top - bottom);
}

void check_against_differences(const Network& network, const GradientCheck& check) {
  Runner run(network, Mode::kTrain, check.samples, "reference");
  if (!run.ok()) return;
  TrainingData data(network, check.samples);
  TrainingData probe(network, check.samples);
  run.loss(data);
  const double loss = data.mean_loss();
  ASSERT_TRUE(std::isfinite(loss));
  for (size_t p = 0; p < network.parameters().size(); ++p) {
    const ParameterInfo& info = network.parameters()[p];
    if (info.kind != ParameterKind::kTrainable) continue;
    const std::span<const float> gradient = data.output(p);
    const double scale = std::max(largest(gradient), 1e-3f);
    const size_t stride = std::max<size_t>(1, gradient.size() / 12);
    for (size_t e = 0; e < gradient.size(); e += stride) {
      // Where a kink lies within one distance, a smaller one decides.
      double error = 1e30, measured = 0;
      for (float h : {1e-2f, 2e-3f, 5e-4f}) {
        const double s = slope(run, probe, p, e, h);
        if (std::abs(s - gradient[e]) < error) {
          error = std::abs(s - gradient[e]);
          measured = s;
        }
        if (error <= check.tolerance * scale) break;
      }
      EXPECT_LE(error, check.tolerance * scale)
          << info.name << "[" << e << "]: computed " << gradient[e] << ", measured " << measured;
    }
  }
}

void check_same(std::span<const float> a, std::span<const float> b, const std::string& what) {
  const float scale = std::max(largest(a), 1e-2f);  // of a gradient that is only rounding, none
  for (size_t e = 0; e < a.size(); ++e)
    ASSERT_NEAR(a[e], b[e], 2e-4f * scale) << what << "[" << e << "]: reference " << a[e] << ", cpu " << b[e];
}

void check_cpu(const Network& network, Mode mode, int64_t n) {
  Runner reference(network, mode, n, "reference"), cpu(network, mode, n, "cpu");
  if (!reference.ok() || !cpu.ok()) return;
  TrainingData a(network, n), b(network, n);
  reference.loss(a);
  for (int round = 0; round < 2; ++round) cpu.loss(b);
  EXPECT_NEAR(a.mean_loss(), b.mean_loss(), 1e-5 * std::max(1.0, std::abs(a.mean_loss())));
  EXPECT_EQ(a.metrics().correct, b.metrics().correct);
  EXPECT_EQ(a.metrics().among_top, b.metrics().among_top);
  if (mode == Mode::kEval) return;
  for (size_t p = 0; p < network.parameters().size(); ++p)
    check_same(a.output(p), b.output(p), network.parameters()[p].name);
}

}  // namespace

void check_gradients(const std::string& input, const std::string& layers, const GradientCheck& check) {
  const std::string text = check.wrap ? wrapped(input, layers) : layers;
  SCOPED_TRACE(text);
  const NetworkText read = read_network(input, text);
  ASSERT_TRUE(read.network) << read.error;
  check_against_differences(*read.network, check);
  check_cpu(*read.network, Mode::kTrain, check.samples);
  check_cpu(*read.network, Mode::kEval, check.samples);
}

}  // namespace dtrain::graph
