// What lstm and gru have in common: units, layers = 1, bidirectional = false, sequences = true. [time, features] →
// [time, units], with bidirectional [time, 2 units]: the state after each step, of both directions beside each other.
// Without sequences [units] or [2 units]: the state after the last step, which for the direction backwards in time is
// at the first place. A stacked layer reads the states of the one below it. See ops/recurrent.h.
//
// Parameters for each layer k and direction ("" or "_reverse"), as in PyTorch: weight_ih_lk [gates·units, features],
// weight_hh_lk [gates·units, units], bias_ih_lk and bias_hh_lk [gates·units].
#pragma once

#include "graph/layer.h"

namespace dtrain::graph {

class RecurrentLayer : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override;
  void forward(Emitter& e) const override;
  void backward(Emitter& e) const override;

 protected:
  RecurrentLayer(std::string op, int64_t gates) : op_(std::move(op)), gates_(gates) {}

 private:
  static constexpr int kParameters = 4;  // of one layer in one direction

  ValueId parameter(const Emitter& e, int64_t layer, int64_t direction, int which) const {
    return e.parameter(first_parameter(layer, direction) + which);
  }
  int first_parameter(int64_t layer, int64_t direction) const {
    return static_cast<int>(layer * directions_ + direction) * kParameters;
  }
  // What forward() saves: of each layer its input, then a workspace for each direction.
  int saved_input(int64_t layer) const { return static_cast<int>(layer * (1 + directions_)); }
  bool only_last(int64_t layer) const { return layer == layers_ - 1 && !sequences_; }

  std::string op_;
  int64_t gates_;
  int64_t units_ = 0, layers_ = 1, directions_ = 1;
  bool sequences_ = true;
};

}  // namespace dtrain::graph
