#include "graph/initializer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/philox.h"

namespace dtrain::graph {
namespace {

// standard_normal() inverts the distribution function at (word + ½) / 2^32, so that words from Φ(−2)·2^32 to
// Φ(2)·2^32 are the deviates from −2 to 2.
constexpr uint64_t kLowest = 97'711'073, kWords = (uint64_t{1} << 32) - 2 * kLowest;

float truncated_normal(uint32_t word) {
  return standard_normal(static_cast<uint32_t>(kLowest + (uint64_t{word} * kWords >> 32)));
}

// With mean 0 and "width" 1.
float standard_draw(Initializer::Kind kind, uint32_t word) {
  if (kind == Initializer::Kind::kUniform) return 2.0f * uniform01(word) - 1.0f;
  return kind == Initializer::Kind::kNormal ? standard_normal(word) : truncated_normal(word);
}

}  // namespace

Initializer Initializer::fan_in(double fan_in) { return uniform(static_cast<float>(1.0 / std::sqrt(fan_in))); }

void initialize(const Initializer& initializer, uint64_t seed, std::string_view name, int64_t first,
                std::span<float> out) {
  DTRAIN_CHECK(initializer.kind != Initializer::Kind::kOrthogonal, "{} is made as a whole", name);
  if (initializer.kind == Initializer::Kind::kConstant) {
    std::fill(out.begin(), out.end(), initializer.center);
    return;
  }
  const Philox random(seed, stream_id("init/" + std::string(name)), 0, 0);
  Philox4 words{};
  for (size_t i = 0; i < out.size(); ++i) {
    const auto element = static_cast<uint64_t>(first) + i;
    if (i == 0 || element % 4 == 0) words = random.group(element / 4);
    out[i] = initializer.center + initializer.spread * standard_draw(initializer.kind, words[element % 4]);
  }
}

}  // namespace dtrain::graph
