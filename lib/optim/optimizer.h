// What turns a gradient into the next version of a parameter, element by element: PyTorch's definitions. An optimizer
// is immutable and shared by all parameters; what it remembers of each element lies in slots, arrays of the parameter's
// size that start at zero and belong to whoever holds the parameter. Safe for concurrent use on disjoint elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/parameter.h"

namespace dtrain::optim {

struct LbfgsOptions;

struct UpdateContext {
  double rate = 0.0;              // learning rate of this step for this parameter
  int64_t step = 0;               // from 0; at 0 nothing is in the slots yet
  float scale = 1.0f;             // multiplies the gradient first: clip factor / K
  double decay_multiplier = 1.0;  // on weight_decay
  double ratio = 1.0;             // Optimizer::ratio of this parameter, for who needs norms
  bool first = false;             // nothing is in the slots yet at a later step either: a row that comes to be now
};

// What an optimizer must know of a whole parameter before it can move an element of it: two L2 norms.
enum class NormNeed {
  kNone,
  kGradient,   // of the values and of the gradient, with its scale
  kDirection,  // of the values and of what prepare() makes of the gradient
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Names of the slots in their order, PyTorch's where it has one ("momentum_buffer").
  virtual std::vector<std::string> slot_names() const = 0;
  size_t slots() const { return slot_names().size(); }

  // For senders that apply momentum before they choose what to send (compress/sender_momentum.h): it, and the optimizer that is
  // then left for the gradients that arrive. Without one where momentum is of another kind.
  struct SplitMomentum {
    double momentum = 0;
    bool nesterov = false;
    std::unique_ptr<const Optimizer> rest;
  };
  virtual SplitMomentum split_momentum() const { return {}; }

  // Not null: it moves all elements at once instead, from the gradient over all samples; update() is not for it.
  virtual const LbfgsOptions* full_batch() const { return nullptr; }

  virtual NormNeed norm_need() const { return NormNeed::kNone; }
  // What the norms make of a parameter's step; becomes UpdateContext::ratio.
  virtual double ratio(const ParameterInfo&, double /*values*/, double /*other*/) const { return 1.0; }
  // With kDirection, once a step and before update(): turns the gradient in place into the direction, which update() is
  // then given instead, and moves the slots.
  virtual void prepare(const UpdateContext&, size_t /*n*/, float* /*gradient*/, const float* /*from*/,
                       float* const* /*slots*/) const {}

  // to[i] = from[i] moved against gradient[i], for i in [0, n); `to` may be `from`. slots[s][i] is element i of slot s.
  // The same bits however the elements are cut into calls and on every instruction set.
  virtual void update(const UpdateContext& context, size_t n, const float* gradient, const float* from, float* to,
                      float* const* slots) const = 0;
};

}  // namespace dtrain::optim
