#include "worker/engine/gradient_pool.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace dtrain::worker {
namespace {

const std::vector<ParameterInfo> kParameters{{"a", Shape{5}, ParameterKind::kTrainable}};

TEST(GradientPool, MakesSetsUpToTheLimitAndUsesThemAgain) {
  GradientPool pool(kParameters);
  GradientPool::Lease a = pool.try_lease(2), b = pool.try_lease(2);
  ASSERT_TRUE(a && b);
  EXPECT_NE(a, b);
  EXPECT_NE(a->at(0), b->at(0));
  EXPECT_FALSE(pool.try_lease(2));
  const ParameterStorage* first = a.get();
  a.reset();
  a = pool.try_lease(2);
  EXPECT_EQ(a.get(), first);
  EXPECT_FALSE(pool.try_lease(2));
  EXPECT_TRUE(pool.try_lease(3)) << "a larger node may have more";
}

TEST(GradientPool, ASetComesBackWithItsLastHolder) {
  GradientPool pool(kParameters);
  GradientPool::Lease lease = pool.try_lease(1);
  std::shared_ptr<const void> under_way = lease;
  lease.reset();
  EXPECT_FALSE(pool.try_lease(1));
  under_way.reset();
  EXPECT_TRUE(pool.try_lease(1));
}

TEST(GradientPool, SaysWhenASetComesBackOnTheThreadThatReturnsIt) {
  GradientPool pool(kParameters);
  std::optional<std::thread::id> said;
  GradientPool::Lease taken;
  pool.on_return([&] {
    said = std::this_thread::get_id();
    taken = pool.try_lease(1);  // it is free already
  });
  GradientPool::Lease lease = pool.try_lease(1);
  std::thread::id other;
  std::thread([&] {
    other = std::this_thread::get_id();
    lease.reset();
  }).join();
  EXPECT_EQ(said, other);
  EXPECT_TRUE(taken);
  pool.on_return(nullptr);
}

TEST(GradientPool, LeasesOutliveThePoolWhoseOwnerIsNotCalledAnyMore) {
  int returns = 0;
  auto pool = std::make_unique<GradientPool>(kParameters);
  pool->on_return([&] { ++returns; });
  GradientPool::Lease lease = pool->try_lease(1);
  pool.reset();
  lease->at(0)[4] = 3;
  EXPECT_EQ(lease->at(0)[4], 3);
  lease.reset();
  EXPECT_EQ(returns, 0);
}

}  // namespace
}  // namespace dtrain::worker
