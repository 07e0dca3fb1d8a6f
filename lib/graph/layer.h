// What one kind of layer means: its keys, shapes and parameters, and its forward and backward passes in terms of ops.
// One file a type in graph/layers, registered there; it knows no device and no memory. An object is one layer of one
// network: setup() once, then immutable, and lowered as often as wanted.
#pragma once

#include <optional>

#include "graph/emitter.h"
#include "graph/layer_setup.h"
#include "graph/prediction.h"

namespace dtrain::graph {

class Layer {
 public:
  virtual ~Layer() = default;

  // Reads all of the layer's own keys, then checks its inputs and declares its parameters. Returns the shape of its
  // output for one sample (of a loss: a scalar), or nothing after having reported an error to `setup`.
  virtual std::optional<Shape> setup(LayerSetup& setup) = 0;

  // Emits ops that compute the output from the inputs. A loss writes the metrics and, in training, saves the gradient.
  virtual void forward(Emitter& emit) const = 0;
  // Emits ops that compute, from the output's gradient, those of the parameters and of the inputs that want one.
  virtual void backward(Emitter& emit) const = 0;

  // Why this layer cannot be trained with so many samples in a micro-batch; nothing where it can.
  virtual std::optional<std::string> untrainable_with(int64_t micro_batch) const {
    (void)micro_batch;
    return std::nullopt;
  }

  // The last layer of a network, which compares with labels.
  virtual bool is_loss() const { return false; }
  // Of a loss: what its input says of a sample.
  virtual Prediction prediction() const { return {}; }
  // True where the output has the input's shape by definition: messages then name the layer that chose that shape.
  virtual bool keeps_shape() const { return false; }
  // Set by layers that are nothing but an activation, so that it may be fused into the layer before.
  virtual std::optional<ops::Activation> activation() const { return std::nullopt; }
  // True where forward() adds Emitter::residual() to its output: a layer `add` behind this one then needs no pass of
  // its own.
  virtual bool fuses_sums() const { return false; }
  // How many gradients of its output backward() adds up itself; where there are more it gets their sum.
  virtual size_t most_gradients() const { return 1; }
  // Whether every element of the output is one of its only input's, whatever the values are. Where it is, pick() gets
  // something for each element of the input (of one sample), and leaves the same for the output.
  virtual bool picks() const { return false; }
  virtual void pick(const Shape& /*input*/, const Shape& /*output*/, std::vector<int32_t>& /*places*/) const {}
  // True of a layer that is nothing but the sum of its inputs.
  virtual bool is_sum() const { return false; }
  // True where backward() itself takes a fused activation into account; else the gradient that it gets is already the
  // one before the activation.
  virtual bool differentiates_fused_activation() const { return false; }
};

}  // namespace dtrain::graph
