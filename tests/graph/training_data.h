// One micro-batch of random data and parameters for a network, with everything that an executable binds.
#pragma once

#include <vector>

#include "base/philox.h"
#include "graph/executable.h"
#include "tensor/buffer.h"

namespace dtrain::graph {

class TrainingData {
 public:
  TrainingData(const Network& network, int64_t n, uint64_t seed = 1) : n_(n) {
    samples_ = Buffer(static_cast<size_t>(n * network.input().elements()) * sizeof(float));
    if (network.input_dtype() == DType::kI32)
      fill_classes(samples_.as<int32_t>(), seed, "samples", network.input_classes());
    else
      fill(samples_.as<float>(), seed, "samples");
    const LabelSpec& spec = network.labels();
    labels_ = Buffer(static_cast<size_t>(n * spec.shape.elements()) * size_of(spec.dtype()));
    if (spec.kind == LabelSpec::Kind::kTargets) {
      fill(labels_.as<float>(), seed, "labels");
    } else {
      fill_classes(labels_.as<int32_t>(), seed, "labels", spec.classes);
    }
    for (size_t p = 0; p < network.parameters().size(); ++p) {
      const size_t elements = static_cast<size_t>(network.parameters()[p].shape.elements());
      parameters_.emplace_back(elements * sizeof(float));
      network.initialize(static_cast<ParameterIndex>(p), seed, 0, parameters_.back().as<float>());
      outputs_.emplace_back(elements * sizeof(float));
      for (float& x : outputs_.back().as<float>()) x = 1e30f;  // must be overwritten
    }
    for (size_t p = 0; p < parameters_.size(); ++p) {
      values_.push_back(parameters_[p].as<float>().data());
      output_pointers_.push_back(outputs_[p].as<float>().data());
    }
  }

  Feed feed() const { return {samples_.as<float>().data(), labels_.data()}; }
  Binding binding() { return {values_, output_pointers_, &metrics_}; }
  ops::RunContext context() const { return {.seed = 5, .step = 3, .first_sample = 0, .valid = n_}; }

  std::span<float> samples() { return samples_.as<float>(); }
  std::span<float> parameter(size_t p) { return parameters_[p].as<float>(); }
  std::span<float> output(size_t p) { return outputs_[p].as<float>(); }
  double mean_loss() const { return metrics_.mean_loss(); }
  const Metrics& metrics() const { return metrics_; }

 private:
  static void fill(std::span<float> out, uint64_t seed, std::string_view what) {
    const Philox random(seed, stream_id(what), 0, 0);
    for (size_t i = 0; i < out.size(); ++i) out[i] = standard_normal(random.at(i));
  }

  static void fill_classes(std::span<int32_t> out, uint64_t seed, std::string_view what, int64_t classes) {
    const Philox random(seed, stream_id(what), 0, 0);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<int32_t>(random.at(i) % static_cast<uint32_t>(classes));
  }

  int64_t n_;
  Buffer samples_, labels_;
  std::vector<Buffer> parameters_, outputs_;
  std::vector<const float*> values_;
  std::vector<float*> output_pointers_;
  Metrics metrics_;
};

}  // namespace dtrain::graph
