// embedding: vocab, dim, sparse = false. Tokens […], numbers 0 … vocab − 1, to […, dim]; parameter weight [vocab, dim].
//
// With sparse = true the table stays with the servers, which keep only those of its rows that training has used; a
// micro-batch is computed with a small table of just its own rows (graph/table_lookup.h).
#include <fmt/format.h>

#include <limits>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class EmbeddingLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    sparse_ = s.keys().boolean("sparse", false);
    constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();
    const int64_t vocabulary = s.keys().require_integer("vocab", 1, sparse_ ? kMostTokens : LayerSetup::kMaxExtent);
    const int64_t dim = s.keys().require_integer("dim", 1, sparse_ ? kChunkElements : LayerSetup::kMaxExtent);
    if (!s.expect_one_input()) return std::nullopt;
    s.tokens(0, vocabulary);
    s.parameter("weight", {vocabulary, dim}, Initializer::normal(1.0f),
                sparse_ ? ParameterKind::kSparse : ParameterKind::kTrainable);
    std::vector<int64_t> y = s.input().dims();
    y.push_back(dim);
    return Shape(std::move(y));
  }

  void forward(Emitter& e) const override { e.op("embedding", {}, {tokens(e), e.parameter(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    e.op("embedding.backward", {}, {tokens(e), e.output_gradient()}, {e.parameter_out(0)});
  }

 private:
  ValueId tokens(Emitter& e) const { return sparse_ ? e.lookup() : e.input(0); }

  bool sparse_ = false;
};

const LayerRegistration<EmbeddingLayer> kRegistration("embedding");

}  // namespace
}  // namespace dtrain::graph
