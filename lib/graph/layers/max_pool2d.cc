// max_pool2d: the keys of pool2d_layer.h.
#include "graph/layer_registry.h"
#include "graph/layers/pool2d_layer.h"

namespace dtrain::graph {
namespace {

class MaxPool2dLayer final : public Pool2dLayer {
 public:
  MaxPool2dLayer() : Pool2dLayer(ops::Pool2d::Kind::kMax) {}
};

const LayerRegistration<MaxPool2dLayer> kRegistration("max_pool2d");

}  // namespace
}  // namespace dtrain::graph
