#include "cluster/lease_book.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace dtrain::cluster {
namespace {

TEST(LeaseBook, HandsOutEachMicroBatchOnce) {
  LeaseBook book(8, 2);
  EXPECT_TRUE(book.complete());
  EXPECT_FALSE(book.lease(1));
  book.extend(13);
  EXPECT_EQ(book.lease(1), (Lease{8, 10}));
  EXPECT_EQ(book.lease(2), (Lease{10, 12}));
  EXPECT_EQ(book.lease(1), (Lease{12, 13})) << "not beyond the end";
  EXPECT_FALSE(book.lease(1));
  EXPECT_EQ(book.held(1), 2u);
  EXPECT_EQ(book.next(), 13);
  EXPECT_FALSE(book.complete());
}

TEST(LeaseBook, OnlyWhatOneHasCanBeDone) {
  LeaseBook book(0, 3);
  book.extend(6);
  book.lease(1);
  book.lease(2);
  EXPECT_FALSE(book.done(1, 3)) << "another has it";
  EXPECT_FALSE(book.done(3, 0)) << "it has nothing";
  EXPECT_TRUE(book.done(1, 1));
  EXPECT_FALSE(book.done(1, 1)) << "twice";
  EXPECT_TRUE(book.done(1, 0));
  EXPECT_TRUE(book.done(1, 2));
  EXPECT_EQ(book.held(1), 0u);
  for (int64_t g : {3, 4, 5}) EXPECT_TRUE(book.done(2, g));
  EXPECT_TRUE(book.complete());
}

TEST(LeaseBook, WhatALostWorkerHadNotDoneGoesToOthersFirst) {
  LeaseBook book(0, 3);
  book.extend(9);
  book.lease(1);
  book.done(1, 1);
  book.lost(1);
  book.lost(4);
  EXPECT_EQ(book.held(1), 0u);
  EXPECT_FALSE(book.done(1, 0)) << "too late";
  EXPECT_EQ(book.lease(2), (Lease{0, 1}));
  EXPECT_EQ(book.lease(2), (Lease{2, 3}));
  EXPECT_EQ(book.lease(2), (Lease{3, 6}));
}

// Whoever is lost and when: each micro-batch is done once.
TEST(LeaseBook, EveryMicroBatchIsDoneOnce) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const int64_t first = random() % 20, count = 1 + random() % 60;
    LeaseBook book(first, 1 + random() % 4);
    book.extend(first + count);
    std::vector<int> done(static_cast<size_t>(first + count));
    std::map<wire::Rank, std::vector<int64_t>> has;
    for (int i = 0; i < 100'000 && !book.complete(); ++i) {
      const auto worker = static_cast<wire::Rank>(random() % 4);
      std::vector<int64_t>& mine = has[worker];
      if (random() % 10 == 0) {
        book.lost(worker);
        mine.clear();
      } else if (mine.empty()) {
        if (const auto lease = book.lease(worker))
          for (int64_t g = lease->first; g < lease->last; ++g) mine.push_back(g);
      } else {
        const size_t at = random() % mine.size();
        EXPECT_TRUE(book.done(worker, mine[at]));
        ++done[static_cast<size_t>(mine[at])];
        mine.erase(mine.begin() + static_cast<ptrdiff_t>(at));
      }
    }
    ASSERT_TRUE(book.complete()) << "seed " << seed;
    for (int64_t g = 0; g < first + count; ++g) ASSERT_EQ(done[static_cast<size_t>(g)], g >= first) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dtrain::cluster
