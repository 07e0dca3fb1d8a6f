#include "node/synthetic_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/philox.h"

namespace dtrain::node {
namespace {

// Uniform in [0, n): the high half of word · n, uneven by less than n / 2^32.
int64_t below(uint32_t word, int64_t n) { return static_cast<int64_t>((word * static_cast<uint64_t>(n)) >> 32); }

// Which of a sample's elements a layer reads as they are; none where something is computed on the way to it.
std::vector<int32_t> places_of(const graph::Network& network, int layer) {
  const auto shape_of = [&](int at) -> const Shape& {
    return at == graph::kSampleInput ? network.input() : network.layers()[static_cast<size_t>(at)].output;
  };
  if (layer == graph::kSampleInput) {
    std::vector<int32_t> all(static_cast<size_t>(network.input().elements()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  const graph::NetworkLayer& picking = network.layers()[static_cast<size_t>(layer)];
  if (picking.inputs.size() != 1 || picking.activation.kind != ops::ActivationKind::kNone || !picking.layer->picks())
    return {};
  const int from = picking.inputs.front();
  std::vector<int32_t> places = places_of(network, from);
  if (!places.empty()) picking.layer->pick(shape_of(from), picking.output, places);
  return places;
}

// Of how many tokens each element of a sample is one; 0: it is a number.
std::vector<int64_t> tokens_by_place(const graph::Network& network) {
  std::vector<int64_t> classes(static_cast<size_t>(network.input().elements()), network.input_classes());
  for (const graph::NetworkLayer& layer : network.layers()) {
    if (layer.type != "embedding") continue;  // the one layer that looks up, in its table or in the servers'
    const int64_t rows = network.parameters()[static_cast<size_t>(layer.parameters.front())].shape[0];
    for (const int32_t place : places_of(network, layer.inputs.front())) {
      int64_t& known = classes[static_cast<size_t>(place)];
      known = known == 0 ? rows : std::min(known, rows);
    }
  }
  return classes;
}

class SyntheticData final : public data::Dataset {
 public:
  SyntheticData(const graph::Network& network, int64_t samples, uint64_t seed)
      : samples_(samples),
        seed_(seed),
        shape_(network.input()),
        dtype_(network.input_dtype()),
        tokens_(tokens_by_place(network)),
        classes_(network.labels().classes),
        shares_(network.prediction().kind == graph::Prediction::Kind::kSigmoid) {
    const graph::LabelSpec& wanted = network.labels();
    labels_.shape = wanted.shape;
    labels_.kind = wanted.kind != graph::LabelSpec::Kind::kClasses ? data::LabelKind::kValues
                   : wanted.shape.dims().empty()                   ? data::LabelKind::kClass
                                                                   : data::LabelKind::kClassPerPosition;
  }

  int64_t size() const override { return samples_; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return dtype_; }
  const data::LabelSpec& labels() const override { return labels_; }
  int64_t max_label() const override { return labels_.kind == data::LabelKind::kValues ? -1 : classes_ - 1; }

  Status read(const data::Draw& draw, data::SampleOut sample, data::LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < samples_, "sample {} of {}", draw.index, samples_);
    const auto stream = [&](std::string_view name) {
      return Philox(seed_, stream_id(name), static_cast<uint32_t>(draw.index), static_cast<uint32_t>(draw.index >> 32));
    };
    const Philox elements = stream("synthetic/elements"), wanted = stream("synthetic/labels");
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const uint32_t word = elements.at(i);
      if (dtype_ == DType::kI32)
        sample.tokens[i] = static_cast<int32_t>(below(word, tokens_[i]));
      else
        sample.values[i] = tokens_[i] > 0 ? static_cast<float>(below(word, tokens_[i])) : standard_normal(word);
    }
    for (size_t i = 0; i < label.classes.size(); ++i)
      label.classes[i] = static_cast<int32_t>(below(wanted.at(i), classes_));
    for (size_t i = 0; i < label.values.size(); ++i)
      label.values[i] = shares_ ? static_cast<float>(wanted.at(i) & 1) : standard_normal(wanted.at(i));
    return {};
  }

  Digest digest() const override {
    return sha256(fmt::format("made up: {} {} {} {}", samples_, seed_, to_string(shape_), to_string(labels_.shape)));
  }

 private:
  const int64_t samples_;
  const uint64_t seed_;
  const Shape shape_;
  const DType dtype_;
  const std::vector<int64_t> tokens_;
  const int64_t classes_;
  const bool shares_;
  data::LabelSpec labels_;
};

}  // namespace

std::shared_ptr<const data::Dataset> synthetic_data(const graph::Network& network, int64_t samples, uint64_t seed) {
  return std::make_shared<SyntheticData>(network, samples, seed);
}

}  // namespace dtrain::node
