// What a layer sees when a network is built, and what it declares about itself. Shapes are those of one sample, without
// the batch. Lives for one Layer::setup().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/table_reader.h"
#include "graph/initializer.h"
#include "graph/label_spec.h"
#include "ops/activation.h"
#include "tensor/parameter.h"
#include "tensor/shape.h"

namespace dtrain::graph {

struct LayerParameter {
  std::string suffix;  // "weight"
  Shape shape;
  ParameterKind kind = ParameterKind::kTrainable;
  Initializer initializer;
};

class LayerSetup {
 public:
  struct Input {
    Shape shape;
    std::string description;  // "input 'pool1' (max_pool2d) of shape [64, 3, 3]"
  };

  // The largest extent that a key may ask for; keeps products of a few of them within int64.
  static constexpr int64_t kMaxExtent = int64_t{1} << 24;
  static constexpr int64_t kMaxElements = int64_t{1} << 40;

  // `guessed`: the inputs' shapes are not known, since a layer above is in error. Then only the keys count, and what
  // the layer has to say of shapes is dropped.
  LayerSetup(std::string what, std::string type, std::string name, config::TableReader& keys, std::vector<Input> inputs,
             bool guessed = false)
      : what_(std::move(what)),
        type_(std::move(type)),
        name_(std::move(name)),
        keys_(keys),
        inputs_(std::move(inputs)),
        guessed_(guessed) {}

  const std::string& what() const { return what_; }  // "layer 'conv1' (conv2d)"
  const std::string& type() const { return type_; }
  const std::string& name() const { return name_; }  // full
  config::TableReader& keys() { return keys_; }
  int inputs() const { return static_cast<int>(inputs_.size()); }
  const Shape& input(int i = 0) const { return inputs_[static_cast<size_t>(i)].shape; }
  const std::string& describe_input(int i = 0) const { return inputs_[static_cast<size_t>(i)].description; }

  // Reports an error, at the value of `key` where it is given and there, else at the layer. "layer 'x' (conv2d): " is
  // put before it.
  void error(std::string_view message, std::string_view key = "");
  // The same for what is wrong with the value of a key whatever the inputs are.
  void key_error(std::string_view message, std::string_view key) { report(message, key); }
  // Whether the layer has exactly one input, or at least two; else reports it.
  bool expect_one_input();
  bool expect_several_inputs();
  // Whether all inputs have the shape of the first.
  bool expect_equal_shapes();
  // Whether input `i` has this rank (without the batch); `what` says what is needed: "[channels, height, width]".
  bool expect_rank(int rank, std::string_view what, int i = 0);

  void parameter(std::string suffix, Shape shape, Initializer initializer,
                 ParameterKind kind = ParameterKind::kTrainable);
  // Of one sample's forward pass, 2 for each multiply-add.
  void flops(double flops) { flops_ = flops; }
  void labels(LabelSpec labels) { labels_ = std::move(labels); }
  // Input `i` holds class numbers 0 … classes − 1 (tokens), which the layer looks up. A network's sample that is read
  // in no other way arrives as I32, else as whole numbers in F32 (exact below 2^24).
  void tokens(int i, int64_t classes) { tokens_.push_back({i, classes}); }

  // `type` as the activation that the keys of this layer describe: alpha for elu, slope for leaky_relu.
  ops::Activation read_activation(ops::ActivationKind kind);

  // ---- for the network
  const std::vector<LayerParameter>& parameters() const { return parameters_; }
  double flops() const { return flops_; }
  const std::optional<LabelSpec>& labels() const { return labels_; }
  // The classes that input `i` may hold where it holds tokens, else 0.
  int64_t token_classes(int i) const;

 private:
  struct Tokens {
    int input;
    int64_t classes;
  };

  void report(std::string_view message, std::string_view key);

  std::string what_, type_, name_;
  config::TableReader& keys_;
  std::vector<Input> inputs_;
  bool guessed_;
  std::vector<LayerParameter> parameters_;
  double flops_ = 0;
  std::optional<LabelSpec> labels_;
  std::vector<Tokens> tokens_;
};

}  // namespace dtrain::graph
