// A network definition, understood: every layer with its inputs, output shape and parameters. Immutable once built; any
// number of programs is lowered from it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/diagnostics.h"
#include "config/network_spec.h"
#include "graph/label_spec.h"
#include "graph/layer.h"
#include "graph/orthogonal.h"
#include "graph/table_lookup.h"
#include "tensor/parameter.h"

namespace dtrain::graph {

constexpr int kSampleInput = -1;

struct NetworkLayer {
  std::string name, type;
  std::unique_ptr<const Layer> layer;
  std::vector<int> inputs;                   // indices of layers above, or kSampleInput
  Shape output;                              // of one sample; of the loss a scalar
  ops::Activation activation;                // that follows it, by its key `activation`
  std::vector<ParameterIndex> parameters;    // in the order in which it declared them; some may be a layer's above
  int64_t parameter_elements = 0;            // of the trainable ones that are its own
  double forward_flops = 0;                  // for one sample, 2 for each multiply-add
  bool needs_gradient = false;               // it or a layer above has something to train
  std::optional<config::TaskDevice> device;  // where the run file wants it computed
};

class Network {
 public:
  // Mistakes go to `diagnostics`; nothing where there are any.
  static std::optional<Network> build(const config::NetworkSpec& spec, config::Diagnostics& diagnostics);

  const Shape& input() const { return input_; }  // one sample
  // A sample's elements: I32 class numbers below input_classes() where all its readers look them up, else F32 (and 0).
  DType input_dtype() const { return input_classes_ > 0 ? DType::kI32 : DType::kF32; }
  int64_t input_classes() const { return input_classes_; }
  const std::vector<NetworkLayer>& layers() const { return layers_; }  // the loss last
  const LabelSpec& labels() const { return labels_; }
  // What the loss reads is the network's answer: its shape for one sample, and what it means.
  const Shape& output() const;
  Prediction prediction() const { return layers_.back().layer->prediction(); }
  // In the order of the forward pass, named as PyTorch would.
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  // Of sparse tables, in the order of the layers.
  const std::vector<TableLookup>& lookups() const { return lookups_; }
  // The most rows of a sparse table that so many samples can use: what it has in a program.
  int64_t rows_used(ParameterIndex table, int64_t samples) const;
  int64_t trainable_elements() const;  // without sparse tables
  double forward_flops() const;        // for one sample

  // Fills `out` with the initial values of elements first … first + out.size() − 1.
  void initialize(ParameterIndex parameter, uint64_t seed, int64_t first, std::span<float> out) const;

 private:
  friend class NetworkBuilder;
  Network() = default;

  Shape input_;
  int64_t input_classes_ = 0;
  std::vector<NetworkLayer> layers_;
  LabelSpec labels_;
  std::vector<ParameterInfo> parameters_;
  std::vector<Initializer> initializers_;
  std::vector<TableLookup> lookups_;
  std::unique_ptr<OrthogonalMatrices> orthogonal_ = std::make_unique<OrthogonalMatrices>();
};

}  // namespace dtrain::graph
