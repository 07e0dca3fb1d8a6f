// reshape: shape (without the batch; one extent may be −1, which is what the others leave). The same elements in
// row-major order; nothing is computed or copied.
#include <fmt/format.h>

#include "graph/layer_registry.h"

namespace dtrain::graph {
namespace {

class ReshapeLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    const std::vector<int64_t> wanted = s.keys().require_integers("shape", -1, LayerSetup::kMaxExtent);
    int64_t given = 1;
    int open = -1;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == 0 || (wanted[i] == -1 && open >= 0)) {
        s.key_error("'shape' must hold extents of 1 or more, and -1 at most once", "shape");
        return std::nullopt;
      }
      if (wanted[i] == -1)
        open = static_cast<int>(i);
      else if ((given *= wanted[i]) > LayerSetup::kMaxElements) {
        s.key_error("'shape' has more than 2^40 elements", "shape");
        return std::nullopt;
      }
    }
    if (wanted.empty()) {
      const config::Value* there = s.keys().value("shape");
      if (there != nullptr && there->is_array() && there->as_array().empty())
        s.key_error("'shape' is empty; a shape has at least one extent", "shape");
      return std::nullopt;
    }
    if (!s.expect_one_input()) return std::nullopt;
    Shape y(wanted);
    const int64_t elements = s.input().elements();
    if (open >= 0 && elements % given == 0) y[open] = elements / given;
    if (y.elements() == elements) return y;
    s.error(fmt::format("'shape' {} does not hold the {} elements of its {}", to_string(Shape(wanted)), elements,
                        s.describe_input()),
            "shape");
    return std::nullopt;
  }

  bool picks() const override { return true; }

  void forward(Emitter& e) const override { e.set_output(e.view(e.input(0), e.output_shape())); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.give_gradient(0, e.view(e.output_gradient(), e.shape(e.input(0))));
  }
};

const LayerRegistration<ReshapeLayer> kRegistration("reshape");

}  // namespace
}  // namespace dtrain::graph
