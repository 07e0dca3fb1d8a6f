#include "graph/lowering.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "graph/dead_nodes.h"
#include "graph/emitter.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

Shape with_batch(int64_t batch, const Shape& sample) {
  std::vector<int64_t> dims{batch};
  dims.insert(dims.end(), sample.dims().begin(), sample.dims().end());
  return Shape(std::move(dims));
}

class Lowering {
 public:
  Lowering(const Network& network, Mode mode, int64_t batch, const std::string& backend)
      : layers_(network.layers()), network_(network), mode_(mode), batch_(batch), backend_(backend) {}

  Program run() {
    sample_ = program_.add(
        {.shape = with_batch(batch_, network_.input()), .dtype = network_.input_dtype(), .kind = ValueKind::kSample});
    const LabelSpec& labels = network_.labels();
    labels_ =
        program_.add({.shape = with_batch(batch_, labels.shape), .dtype = labels.dtype(), .kind = ValueKind::kLabels});
    for (size_t p = 0; p < network_.parameters().size(); ++p) {
      Value value{.shape = network_.parameters()[p].shape, .kind = ValueKind::kParameter};
      value.parameter = static_cast<ParameterIndex>(p);
      if (sparse(value.parameter)) value.shape[0] = network_.rows_used(value.parameter, batch_);
      parameters_.push_back(program_.add(std::move(value)));
    }
    for (size_t i = 0; i < network_.lookups().size(); ++i) {
      const Shape tokens{batch_, static_cast<int64_t>(network_.lookups()[i].places.size())};
      Value value{.shape = tokens, .dtype = DType::kI32, .kind = ValueKind::kLookup};
      value.lookup = static_cast<int32_t>(i);
      lookups_.push_back(program_.add(std::move(value)));
    }
    count_readers();
    count_users();
    frames_.resize(layers_.size());
    fold_sums();
    const size_t answer = layers_.size() - (mode_ == Mode::kPredict ? 1 : 0);
    for (size_t i = 0; i < answer; ++i) forward(i);
    if (mode_ == Mode::kPredict) predict(layers_.back());
    if (mode_ == Mode::kTrain)
      for (size_t i = layers_.size(); i-- > 0;) backward(i);
    drop_dead_nodes(program_);
    return std::move(program_);
  }

 private:
  static constexpr int kNone = kSampleInput - 1;

  // What a layer's forward pass leaves for its backward pass.
  struct Frame {
    std::unique_ptr<Emitter> emit;
    ValueId before = kNoValue;       // its output before an activation of its own
    ValueId output = kNoValue;       // what others read
    bool folded = false;             // an activation, or a sum, that a layer before has taken over
    int sum = kNone;                 // the sum that this layer has taken over
    int residual = kNone;            // what that adds: a layer, or the sample
    std::vector<ValueId> gradients;  // of the output, one a reader
  };

  void count_readers() {
    readers_.assign(layers_.size(), 0);
    for (const NetworkLayer& l : layers_)
      for (int i : l.inputs)
        if (i != kSampleInput) ++readers_[static_cast<size_t>(i)];
  }

  void count_users() {
    users_.assign(parameters_.size(), 0);
    parts_.resize(parameters_.size());
    for (const NetworkLayer& l : layers_)
      for (ParameterIndex p : l.parameters) ++users_[static_cast<size_t>(p)];
  }

  // Finds the sums of two that become part of the later one of their inputs, which nobody else reads.
  void fold_sums() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::vector<int>& inputs = layers_[i].inputs;
      if (!layers_[i].layer->is_sum() || inputs.size() != 2) continue;
      const auto [earlier, later] = std::minmax(inputs[0], inputs[1]);
      if (later == kSampleInput || earlier == later) continue;
      const NetworkLayer& into = layers_[static_cast<size_t>(later)];
      Frame& frame = frames_[static_cast<size_t>(later)];
      if (!into.layer->fuses_sums() || readers_[static_cast<size_t>(later)] != 1 || frame.sum != kNone ||
          into.activation.kind != ops::ActivationKind::kNone || into.needs_gradient != layers_[i].needs_gradient)
        continue;
      frame.sum = static_cast<int>(i);
      frame.residual = earlier;
      frames_[i].folded = true;
    }
  }

  ValueId output_of(int layer) const {
    return layer == kSampleInput ? sample_ : frames_[static_cast<size_t>(layer)].output;
  }

  // The layer's own activation, or that of a layer of nothing else which alone reads it.
  ops::Activation activation_after(size_t i) {
    if (layers_[i].activation.kind != ops::ActivationKind::kNone || readers_[i] != 1) return layers_[i].activation;
    for (size_t j = i + 1; j < layers_.size(); ++j) {
      if (layers_[j].inputs.front() != static_cast<int>(i)) continue;
      const auto activation = layers_[j].layer->activation();
      const bool alone = layers_[j].activation.kind == ops::ActivationKind::kNone;
      if (!activation || !alone || layers_[i].layer->activation()) break;
      frames_[j].folded = true;
      return *activation;
    }
    return {};
  }

  void forward(size_t i) {
    const NetworkLayer& layer = layers_[i];
    Frame& frame = frames_[i];
    Emitter::Setting setting{.program = &program_, .mode = mode_, .batch = batch_, .backend = backend_};
    setting.layer = static_cast<int>(i);
    for (int input : layer.inputs) setting.inputs.push_back(output_of(input));
    for (ParameterIndex p : layer.parameters) {
      setting.parameters.push_back(parameters_[static_cast<size_t>(p)]);
      setting.parameter_outs.push_back(frozen(p) || shared(p) ? Emitter::kNoParameter : p);
    }
    setting.labels = labels_;
    for (size_t k = 0; k < lookups_.size(); ++k)
      if (network_.lookups()[k].layer == static_cast<int>(i)) setting.lookup = lookups_[k];
    setting.output_shape = with_batch(batch_, layer.output);
    if (frame.sum != kNone) setting.residual = output_of(frame.residual);
    if (!frame.folded) setting.activation = activation_after(frame.sum != kNone ? static_cast<size_t>(frame.sum) : i);
    frame.emit = std::make_unique<Emitter>(std::move(setting));
    if (frame.folded) {
      frame.emit->set_output(output_of(*std::max_element(layer.inputs.begin(), layer.inputs.end())));
    } else {
      layer.layer->forward(*frame.emit);
    }
    frame.before = frame.output = frame.emit->output();
    const ops::Activation& activation = frame.emit->activation();
    if (activation.kind == ops::ActivationKind::kNone || frame.emit->fused()) return;
    frame.output = frame.emit->value(program_.at(frame.before).shape);
    frame.emit->op("activation", activation, {frame.before}, {frame.output});
  }

  void predict(const NetworkLayer& loss) {
    const ValueId answer = output_of(loss.inputs.front());
    const ValueId out = program_.add({.shape = program_.at(answer).shape, .kind = ValueKind::kPrediction});
    program_.nodes.push_back({"reorder", {}, {answer}, {out}, static_cast<int>(layers_.size()) - 1});
  }

  void backward(size_t i) {
    const NetworkLayer& layer = layers_[i];
    if (!layer.needs_gradient) return;
    Frame& frame = frames_[i];
    if (frame.folded) {  // its gradients are those of the layer that has taken it over
      const int into = *std::max_element(layer.inputs.begin(), layer.inputs.end());
      frames_[static_cast<size_t>(into)].gradients = std::move(frame.gradients);
      return;
    }
    Emitter& emit = *frame.emit;
    std::vector<bool> wants;
    for (int input : layer.inputs) wants.push_back(wants_gradient(input));
    const bool wants_residual = frame.sum != kNone && wants_gradient(frame.residual);
    emit.begin_backward(gradients_before(frame, layer), wants, wants_residual);
    layer.layer->backward(emit);
    if (wants_residual) frames_[static_cast<size_t>(frame.residual)].gradients.push_back(emit.residual_gradient());
    sum_shared(layer, emit);
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      if (!wants[k]) continue;
      const ValueId to_input = emit.input_gradient(static_cast<int>(k));
      DTRAIN_CHECK(to_input != kNoValue, "layer {} gives no gradient to its input", layer.name);
      frames_[static_cast<size_t>(layer.inputs[k])].gradients.push_back(to_input);
    }
  }

  bool frozen(ParameterIndex p) const {
    return network_.parameters()[static_cast<size_t>(p)].kind == ParameterKind::kFrozen;
  }
  bool sparse(ParameterIndex p) const {
    return network_.parameters()[static_cast<size_t>(p)].kind == ParameterKind::kSparse;
  }
  bool shared(ParameterIndex p) const { return users_[static_cast<size_t>(p)] > 1; }

  // The last of a parameter's users, which is the first layer, adds up what all of them gave.
  void sum_shared(const NetworkLayer& layer, Emitter& emit) {
    for (size_t i = 0; i < layer.parameters.size(); ++i) {
      const ParameterIndex p = layer.parameters[i];
      if (frozen(p) || !shared(p)) continue;
      std::vector<ValueId>& parts = parts_[static_cast<size_t>(p)];
      parts.push_back(emit.parameter_gradient(static_cast<int>(i)));
      DTRAIN_CHECK(parts.back() != kNoValue, "layer {} gives no gradient of its parameter {}", layer.name, i);
      if (static_cast<int>(parts.size()) < users_[static_cast<size_t>(p)]) continue;
      Value sum{.shape = program_.at(parameters_[static_cast<size_t>(p)]).shape, .kind = ValueKind::kParameterOut};
      sum.parameter = p;
      emit.op("add", ops::Add{}, parts, {program_.add(std::move(sum))});
    }
  }

  bool wants_gradient(int layer) const {
    return layer != kSampleInput && layers_[static_cast<size_t>(layer)].needs_gradient;
  }

  // The gradients, before the activation, whose sum is that of the layer's output.
  std::vector<ValueId> gradients_before(Frame& frame, const NetworkLayer& layer) {
    if (layer.layer->is_loss()) return {};
    DTRAIN_CHECK(!frame.gradients.empty(), "a layer that nobody reads");
    const bool separate = frame.emit->activation().kind != ops::ActivationKind::kNone &&
                          !(frame.emit->fused() && layer.layer->differentiates_fused_activation());
    if (!separate && frame.gradients.size() <= layer.layer->most_gradients()) return frame.gradients;
    return {before_activation(frame, layer, summed(frame))};
  }

  ValueId summed(Frame& frame) {
    if (frame.gradients.size() == 1) return frame.gradients.front();
    const ValueId sum = frame.emit->value(program_.at(frame.output).shape);
    frame.emit->op("add", ops::Add{}, frame.gradients, {sum});
    return sum;
  }

  ValueId before_activation(Frame& frame, const NetworkLayer& layer, ValueId gradient) {
    const ops::Activation& activation = frame.emit->activation();
    if (activation.kind == ops::ActivationKind::kNone) return gradient;
    if (frame.emit->fused() && layer.layer->differentiates_fused_activation()) return gradient;
    const ValueId saved = ops::backward_uses_output(activation.kind) ? frame.output : frame.before;
    const ValueId result = frame.emit->value(program_.at(frame.before).shape);
    frame.emit->op("activation.backward", activation, {gradient, saved}, {result});
    return result;
  }

  const std::vector<NetworkLayer>& layers_;
  const Network& network_;
  Mode mode_;
  int64_t batch_;
  const std::string& backend_;
  Program program_;
  ValueId sample_ = kNoValue, labels_ = kNoValue;
  std::vector<ValueId> parameters_, lookups_;
  std::vector<Frame> frames_;
  std::vector<int> readers_;                 // of each layer
  std::vector<int> users_;                   // of each parameter: the layers' places that it has
  std::vector<std::vector<ValueId>> parts_;  // of the gradient of each that has several, last user first
};

}  // namespace

Program lower(const Network& network, Mode mode, int64_t micro_batch, const std::string& backend) {
  return Lowering(network, mode, micro_batch, backend).run();
}

}  // namespace dtrain::graph
