#include "graph/orthogonal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace dtrain::graph {
namespace {

Initializer orthogonal(int64_t rows, int64_t columns, float gain = 1) {
  return {Initializer::Kind::kOrthogonal, 0.0f, gain, rows, columns};
}

std::vector<float> whole(const Initializer& i, uint64_t seed = 1, std::string_view name = "w") {
  OrthogonalMatrices matrices;
  std::vector<float> out(static_cast<size_t>(i.rows * i.columns));
  matrices.initialize(i, seed, name, 0, out);
  return out;
}

TEST(Orthogonal, TheShorterSidesVectorsAreOrthonormal) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{7, 7}, {5, 40}, {40, 5}, {1, 3}, {33, 32}}) {
    const auto m = whole(orthogonal(rows, columns, 2));
    const int64_t vectors = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](int64_t v, int64_t i) -> double {
      return m[static_cast<size_t>(rows <= columns ? v * columns + i : i * columns + v)];
    };
    for (int64_t a = 0; a < vectors; ++a) {
      for (int64_t b = 0; b <= a; ++b) {
        double product = 0;
        for (int64_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
        EXPECT_NEAR(product, a == b ? 4.0 : 0.0, 1e-5) << rows << " by " << columns << ": " << a << ", " << b;
      }
    }
  }
}

TEST(Orthogonal, AnyRangeIsAPartOfTheWhole) {
  const Initializer i = orthogonal(6, 9);
  const auto m = whole(i);
  OrthogonalMatrices matrices;
  for (int64_t first : {0, 1, 20, 53}) {
    std::vector<float> part(m.size() - static_cast<size_t>(first));
    matrices.initialize(i, 1, "w", first, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), m.begin() + first)) << first;
  }
}

TEST(Orthogonal, DependsOnSeedAndName) {
  // One object that is asked for several matrices in turn gives what a fresh one gives.
  OrthogonalMatrices matrices;
  const Initializer i = orthogonal(4, 4);
  std::vector<float> out(16);
  for (auto [seed, name] : {std::pair<uint64_t, const char*>{1, "a"}, {1, "b"}, {2, "b"}, {1, "a"}}) {
    matrices.initialize(i, seed, name, 0, out);
    EXPECT_EQ(out, whole(i, seed, name));
  }
  EXPECT_NE(whole(i, 1, "a"), whole(i, 1, "b"));
  EXPECT_NE(whole(i, 1, "b"), whole(i, 2, "b"));
}

}  // namespace
}  // namespace dtrain::graph
