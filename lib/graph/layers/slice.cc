// slice: axis = 1 (the batch is axis 0), begin = 0, end = the axis's end, or extent instead of it. Elements begin … end
// − 1 along the axis; axis, begin and end may be negative, counted from the end.
#include <fmt/format.h>

#include "graph/layer_registry.h"
#include "ops/elementwise.h"

namespace dtrain::graph {
namespace {

class SliceLayer final : public Layer {
 public:
  std::optional<Shape> setup(LayerSetup& s) override {
    constexpr int64_t kMax = LayerSetup::kMaxExtent;
    config::TableReader& keys = s.keys();
    const int64_t given_axis = keys.integer("axis", 1);
    const int64_t given_begin = keys.integer("begin", 0, -kMax, kMax);
    const int64_t given_end = keys.integer("end", 0, -kMax, kMax), extent = keys.integer("extent", 0, 1, kMax);
    if (keys.has("end") && keys.has("extent")) {
      s.key_error("takes 'end' or 'extent', not both", "extent");
      return std::nullopt;
    }
    if (!s.expect_one_input()) return std::nullopt;
    Shape y = s.input();
    const int rank = y.rank() + 1;  // with the batch
    const int64_t axis = given_axis < 0 ? given_axis + rank : given_axis;
    if (axis < 1 || axis >= rank) {
      s.error(fmt::format("'axis' must be from 1 to {} (axis 0 is the batch), or negative from the end, got {}; its {}",
                          rank - 1, given_axis, s.describe_input()),
              "axis");
      return std::nullopt;
    }
    slice_.axis = static_cast<int>(axis);
    int64_t& size = y[slice_.axis - 1];
    const auto from_end = [&](int64_t place) { return place < 0 ? place + size : place; };
    slice_.begin = from_end(given_begin);
    const int64_t end = keys.has("end") ? from_end(given_end) : keys.has("extent") ? slice_.begin + extent : size;
    if (slice_.begin < 0 || slice_.begin >= size || end > size || end <= slice_.begin) {
      const char* key = keys.has("end") ? "end" : keys.has("extent") ? "extent" : "begin";
      s.error(fmt::format("'{}' makes it elements {} to {} (not included) of axis {}, which has {}: there are none, or "
                          "not all; its {}",
                          key, slice_.begin, end, axis, size, s.describe_input()),
              key);
      return std::nullopt;
    }
    size = end - slice_.begin;
    return y;
  }

  bool picks() const override { return true; }
  void pick(const Shape& input, const Shape& output, std::vector<int32_t>& places) const override {
    int64_t before = 1, behind = 1;
    for (int a = 0; a < slice_.axis - 1; ++a) before *= input[a];
    for (int a = slice_.axis; a < input.rank(); ++a) behind *= input[a];
    const int64_t from = input[slice_.axis - 1] * behind, taken = output[slice_.axis - 1] * behind;
    std::vector<int32_t> picked;
    for (int64_t b = 0; b < before; ++b) {
      const auto first = places.begin() + b * from + slice_.begin * behind;
      picked.insert(picked.end(), first, first + taken);
    }
    places = std::move(picked);
  }

  void forward(Emitter& e) const override { e.op("slice", slice_, {e.input(0)}, {e.new_output()}); }

  void backward(Emitter& e) const override {
    if (e.wants_gradient(0)) e.op("slice.backward", slice_, {e.output_gradient()}, {e.new_gradient(0)});
  }

 private:
  ops::Slice slice_;
};

const LayerRegistration<SliceLayer> kRegistration("slice");

}  // namespace
}  // namespace dtrain::graph
