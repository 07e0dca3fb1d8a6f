#include "graph/arena.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dtrain::graph {
namespace {

// The first pair that lives at once and shares memory; "" where there is none.
std::string clash(const std::vector<ArenaItem>& items, size_t size) {
  for (size_t i = 0; i < items.size(); ++i) {
    const ArenaItem& a = items[i];
    if (a.offset % 64 != 0 || a.offset + a.bytes > size) return "bad offset of item " + std::to_string(i);
    for (size_t j = 0; j < i; ++j) {
      const ArenaItem& b = items[j];
      const bool together = a.first <= b.last && b.first <= a.last;
      if (together && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes)
        return "items " + std::to_string(j) + " and " + std::to_string(i);
    }
  }
  return "";
}

TEST(Arena, AChainNeedsTwoBuffers) {
  std::vector<ArenaItem> items;
  for (int i = 0; i < 10; ++i) items.push_back({640, i, i + 1, 0});
  EXPECT_EQ(place(items), 1280u);
  EXPECT_EQ(clash(items, 1280), "");
}

TEST(Arena, TakesTheSmallestGapThatFits) {
  // At step 5, two holes of 1024 and 256 bytes lie between what lives for ever.
  std::vector<ArenaItem> items = {{4096, 0, 9, 0}, {2048, 0, 9, 0}, {1024, 0, 1, 0}, {1000, 0, 9, 0},
                                  {256, 0, 1, 0},  {250, 0, 9, 0},  {200, 5, 5, 0}};
  const size_t size = place(items);
  EXPECT_EQ(clash(items, size), "");
  EXPECT_EQ(items[6].offset, items[4].offset);
}

TEST(Arena, EmptyItemsTakeNothing) {
  std::vector<ArenaItem> items = {{0, 0, 5, 0}, {1, 0, 5, 0}};
  EXPECT_EQ(place(items), 64u);
  EXPECT_EQ(place({}), 0u);
}

TEST(Arena, NeverSharesWhatLivesAtOnce) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<ArenaItem> items;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % 40);
      items.push_back({random() % 2000, first, first + static_cast<int>(random() % 8), 0});
    }
    const size_t size = place(items);
    EXPECT_EQ(clash(items, size), "") << "seed " << seed;
    size_t live = 0;  // no placement can do with less
    for (int s = 0; s < 48; ++s) {
      size_t now = 0;
      for (const ArenaItem& a : items)
        if (a.first <= s && s <= a.last) now += a.bytes;
      live = std::max(live, now);
    }
    EXPECT_LE(size, 2 * live) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dtrain::graph
