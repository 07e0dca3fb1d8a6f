#include "graph/layers/pool2d_layer.h"

#include <fmt/format.h>

namespace dtrain::graph {

std::optional<Shape> Pool2dLayer::setup(LayerSetup& s) {
  constexpr int64_t kMax = LayerSetup::kMaxExtent;
  pool_.kernel = s.keys().require_pair("kernel", 1, kMax);
  pool_.stride = s.keys().pair("stride", pool_.kernel, 1, kMax);
  pool_.pad = s.keys().pair("pad", {0, 0}, 0, kMax);
  pool_.ceil = s.keys().boolean("ceil", false);
  if (!s.expect_one_input() || !s.expect_rank(3, "[channels, height, width]")) return std::nullopt;
  if (pool_.pad[0] > pool_.kernel[0] / 2 || pool_.pad[1] > pool_.kernel[1] / 2) {
    s.error(fmt::format("'pad' may be at most half the kernel ({} by {}), got {} by {}", pool_.kernel[0],
                        pool_.kernel[1], pool_.pad[0], pool_.pad[1]),
            "pad");
    return std::nullopt;
  }
  Shape y = s.input();
  for (int a : {0, 1}) {
    const auto i = static_cast<size_t>(a);
    y[a + 1] = ops::pool_extent(y[a + 1], pool_.kernel[i], pool_.stride[i], pool_.pad[i], pool_.ceil);
    if (y[a + 1] >= 1) continue;
    s.error(
        fmt::format("a kernel of {} by {} is larger than its {}", pool_.kernel[0], pool_.kernel[1], s.describe_input()),
        "kernel");
    return std::nullopt;
  }
  return y;
}

void Pool2dLayer::forward(Emitter& e) const {
  std::vector<ValueId> out{e.new_output()};
  if (e.training()) {
    out.push_back(e.workspace());
    e.save(out.back());
  }
  e.op("pool2d", pool_, {e.input(0)}, std::move(out));
}

void Pool2dLayer::backward(Emitter& e) const {
  if (e.wants_gradient(0)) e.op("pool2d.backward", pool_, {e.output_gradient(), e.saved(0)}, {e.new_gradient(0)});
}

}  // namespace dtrain::graph
