// lstm: keys, shapes and parameters in recurrent_layer.h. The weights' rows are those of the gates i, f, g, o.
#include "graph/layer_registry.h"
#include "graph/layers/recurrent_layer.h"

namespace dtrain::graph {
namespace {

class LstmLayer final : public RecurrentLayer {
 public:
  LstmLayer() : RecurrentLayer("lstm", 4) {}
};

const LayerRegistration<LstmLayer> kRegistration("lstm");

}  // namespace
}  // namespace dtrain::graph
