// gru: keys, shapes and parameters in recurrent_layer.h. The weights' rows are those of the gates r, z, n.
#include "graph/layer_registry.h"
#include "graph/layers/recurrent_layer.h"

namespace dtrain::graph {
namespace {

class GruLayer final : public RecurrentLayer {
 public:
  GruLayer() : RecurrentLayer("gru", 3) {}
};

const LayerRegistration<GruLayer> kRegistration("gru");

}  // namespace
}  // namespace dtrain::graph
