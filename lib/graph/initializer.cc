#include "graph/initializer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/philox.h"

namespace dtrain::graph {

Initializer Initializer::fan_in(double fan_in) { return uniform(static_cast<float>(1.0 / std::sqrt(fan_in))); }

void initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                std::span<float> out) {
  if (initializer.kind == Initializer::Kind::kConstant) {
    std::fill(out.begin(), out.end(), initializer.value);
    return;
  }
  const Philox random(seed, stream_id("init/" + std::string(name)), 0, 0);
  const bool uniform = initializer.kind == Initializer::Kind::kUniform;
  Philox4 words{};
  for (size_t i = 0; i < out.size(); ++i) {
    const auto element = static_cast<uint64_t>(first) + i;
    if (i == 0 || element % 4 == 0) words = random.group(element / 4);
    const uint32_t word = words[element % 4];
    out[i] = initializer.value * (uniform ? 2.0f * uniform01(word) - 1.0f : standard_normal(word));
  }
}

}  // namespace dtrain::graph
