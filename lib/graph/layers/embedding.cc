// embedding: vocab, dim. Tokens […], numbers 0 … vocab − 1, to […, dim]; parameter weight [vocab, dim].
#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class EmbeddingLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const int64_t vocabulary = s.keys().require_integer("vocab", 1, LayerSetup::kMaxExtent);
    const int64_t dim = s.keys().require_integer("dim", 1, LayerSetup::kMaxExtent);
    if (!s.expect_one_input()) return std::nullopt;
    s.tokens(0, vocabulary);
    s.parameter("weight", {vocabulary, dim}, Initializer::normal(1.0f));
    std::vector<int64_t> y = s.input().dims();
    y.push_back(dim);
    return Shape(std::move(y));
  }

  void forward(Emitter& e) const override { e.op("embedding", {}, {e.input(0), e.parameter(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    e.op("embedding.backward", {}, {e.input(0), e.output_gradient()}, {e.parameter_out(0)});
  }
};

const LayerRegistration<EmbeddingLayer> kRegistration("embedding");

}  // namespace
}  // namespace dtrain::graph
