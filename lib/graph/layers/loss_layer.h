// What losses have in common: in training the op gives the metrics and the gradient of the logits, otherwise the
// metrics.
#pragma once

#include <any>
#include <string>

#include "graph/layer.h"

namespace dtrain::graph {

class LossLayer : public Layer {
 public:
  bool is_loss() const override { return true; }

  void forward(Emitter& e) const override {
    std::vector<ValueId> out{e.metrics()};
    if (e.training()) {
      out.push_back(e.value(e.shape(e.input(0))));
      e.save(out.back());
    }
    e.op(op(), attributes(), {e.input(0), e.labels()}, std::move(out));
  }

  void backward(Emitter& e) const override { e.give_gradient(0, e.saved(0)); }

 protected:
  virtual std::string op() const = 0;
  virtual std::any attributes() const = 0;
};

}  // namespace dtrain::graph
