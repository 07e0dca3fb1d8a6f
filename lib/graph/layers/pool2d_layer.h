// What max_pool2d and avg_pool2d have in common: kernel, stride = kernel, pad = 0, ceil = false. [C, H, W] → [C, oh,
// ow].
#pragma once

#include "graph/layer.h"
#include "ops/pool2d.h"

namespace dtrain::graph {

class Pool2dLayer : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override;
  void forward(Emitter& e) const override;
  void backward(Emitter& e) const override;

 protected:
  explicit Pool2dLayer(ops::Pool2d::Kind kind) { pool_.kind = kind; }

  ops::Pool2d pool_;
};

}  // namespace dtrain::graph
