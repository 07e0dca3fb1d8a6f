// Through this a layer writes its ops into a program. One emitter serves one layer of one program: forward() first,
// then, in training, backward() with what forward() saved. Shapes include the batch, as axis 0.
#pragma once

#include <any>
#include <string>
#include <utility>
#include <vector>

#include "graph/program.h"
#include "ops/activation.h"

namespace dtrain::graph {

class Emitter {
 public:
  static constexpr ParameterIndex kNoParameter = -1;

  struct Setting {
    Program* program = nullptr;
    Mode mode = Mode::kTrain;
    int64_t batch = 1;
    std::string backend;                      // asked only whether it supports a fused form
    int layer = -1;                           // index, for the nodes
    std::vector<ValueId> inputs, parameters;  // parameters in the order in which setup() declared them
    // Of each parameter: where its gradient, or next value, leaves the program; kNoParameter: it stays a temporary.
    std::vector<ParameterIndex> parameter_outs;
    ValueId labels = kNoValue;
    ValueId lookup = kNoValue;    // of a layer with a sparse table: which of the micro-batch's rows each token is
    ValueId residual = kNoValue;  // to be added to the layer's output, before the activation; see Layer::fuses_sums
    Shape output_shape;           // with the batch
    ops::Activation activation;   // to follow the layer: fused where that is possible
  };
  explicit Emitter(Setting setting)
      : setting_(std::move(setting)),
        input_gradients_(setting_.inputs.size(), kNoValue),
        parameter_gradients_(setting_.parameters.size(), kNoValue) {}

  // ---- in both passes
  bool training() const { return setting_.mode == Mode::kTrain; }
  int64_t batch() const { return setting_.batch; }
  const Shape& output_shape() const { return setting_.output_shape; }
  int inputs() const { return static_cast<int>(setting_.inputs.size()); }
  ValueId input(int i) const { return setting_.inputs[static_cast<size_t>(i)]; }
  // Of a layer whose parameter is a sparse table, in place of its tokens: I32 numbers of rows of what parameter() is in
  // this program, the few rows that the micro-batch uses.
  ValueId lookup() const { return setting_.lookup; }
  ValueId parameter(int i) const { return setting_.parameters[static_cast<size_t>(i)]; }
  // Where the gradient of parameter i, or the next value of statistic i, is to be written. A layer need not ask whether
  // anybody wants it: an op whose outputs nobody reads is dropped.
  ValueId parameter_out(int i);
  // The same, cut along the first axis into pieces of whole blocks where the parameter is larger than one and
  // has rows that are short beside that, each to be written by an op of its own. A row on a cut is in both pieces.
  struct Piece {
    int64_t row;  // the first
    ValueId out;  // [rows, …]
  };
  std::vector<Piece> parameter_pieces(int i);
  const Shape& shape(ValueId value) const { return setting_.program->at(value).shape; }
  ValueId value(Shape shape, DType dtype = DType::kF32);
  ValueId workspace();  // opaque bytes; the kernel that writes them says how many
  ValueId view(ValueId of, Shape shape);
  void op(std::string name, std::any attributes, std::vector<ValueId> inputs, std::vector<ValueId> outputs);

  // ---- forward
  ValueId labels() const { return setting_.labels; }
  ValueId metrics();
  ValueId new_output() { return output_ = value(setting_.output_shape); }
  void set_output(ValueId value) { output_ = value; }
  void save(ValueId value) { saved_.push_back(value); }
  // As op(), for attributes with a member `activation`: the activation that follows the layer becomes part of the op
  // where the backend can do so and the backward pass does not need the value before it.
  template <typename Attributes>
  void fused_op(std::string name, Attributes attributes, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    attributes.activation = setting_.activation;
    fused_ = can_fuse(name, attributes, inputs, outputs);
    if (!fused_) attributes.activation = {};
    op(std::move(name), attributes, std::move(inputs), std::move(outputs));
  }

  // To be added to the output; kNoValue: nothing.
  ValueId residual() const { return setting_.residual; }

  // ---- backward
  ValueId saved(int i) const { return saved_[static_cast<size_t>(i)]; }
  ValueId output() const { return output_; }
  ValueId output_gradient() const { return output_gradients_.front(); }
  // Up to Layer::most_gradients() of them: the gradient is their sum.
  const std::vector<ValueId>& output_gradients() const { return output_gradients_; }
  bool wants_residual_gradient() const { return wants_residual_gradient_; }
  void give_residual_gradient(ValueId gradient) { residual_gradient_ = gradient; }
  // What fused_op() put into the forward op.
  ops::Activation fused_activation() const { return fused_ ? setting_.activation : ops::Activation{}; }
  bool wants_gradient(int input) const { return wants_gradient_[static_cast<size_t>(input)]; }
  void give_gradient(int input, ValueId gradient) { input_gradients_[static_cast<size_t>(input)] = gradient; }
  // A new value in the shape of the input, given as its gradient.
  ValueId new_gradient(int input);

  // ---- for the lowering
  const ops::Activation& activation() const { return setting_.activation; }
  bool fused() const { return fused_; }
  void begin_backward(std::vector<ValueId> output_gradients, std::vector<bool> wants_gradient, bool wants_residual) {
    output_gradients_ = std::move(output_gradients);
    wants_gradient_ = std::move(wants_gradient);
    wants_residual_gradient_ = wants_residual;
  }
  ValueId residual_gradient() const { return residual_gradient_; }
  // What backward() took for parameter i; kNoValue where it did not ask.
  ValueId parameter_gradient(int i) const { return parameter_gradients_[static_cast<size_t>(i)]; }
  ValueId input_gradient(int i) const { return input_gradients_[static_cast<size_t>(i)]; }

 private:
  bool can_fuse(const std::string& op, std::any attributes, const std::vector<ValueId>& inputs,
                const std::vector<ValueId>& outputs) const;

  Setting setting_;
  ValueId output_ = kNoValue, residual_gradient_ = kNoValue;
  std::vector<ValueId> output_gradients_;
  bool fused_ = false, wants_residual_gradient_ = false;
  std::vector<ValueId> saved_;
  std::vector<bool> wants_gradient_;
  std::vector<ValueId> input_gradients_, parameter_gradients_;
};

}  // namespace dtrain::graph
