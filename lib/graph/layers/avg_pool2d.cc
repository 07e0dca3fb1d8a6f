// avg_pool2d: the keys of pool2d_layer.h and count_include_pad = true.
#include "graph/layer_registry.h"
#include "graph/layers/pool2d_layer.h"

namespace dtrain::graph {
namespace {

class AvgPool2dLayer final : public Pool2dLayer {
 public:
  AvgPool2dLayer() : Pool2dLayer(ops::Pool2d::Kind::kAverage) {}

  std::optional<Shape> setup(LayerSetup& s) override {
    pool_.count_include_pad = s.keys().boolean("count_include_pad", true);
    return Pool2dLayer::setup(s);
  }
};

const LayerRegistration<AvgPool2dLayer> kRegistration("avg_pool2d");

}  // namespace
}  // namespace dtrain::graph
