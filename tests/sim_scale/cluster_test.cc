#include "sim/scale/cluster.h"

#include <gtest/gtest.h>

#include <malloc.h>
#include <atomic>

#include <cstdlib>
#include <new>

namespace {

// Bytes that are allocated at the moment, by anybody in this program.
std::atomic<int64_t> living{0};

void* count(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  living += static_cast<int64_t>(malloc_usable_size(p));
  return p;
}

void uncount(void* p) {
  if (p != nullptr) living -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t n) { return count(std::malloc(n)); }
void* operator new(size_t n, std::align_val_t a) {
  const auto to = static_cast<size_t>(a);
  return count(std::aligned_alloc(to, (n + to - 1) / to * to));
}
void operator delete(void* p) noexcept { uncount(p); }
void operator delete(void* p, size_t) noexcept { uncount(p); }
void operator delete(void* p, std::align_val_t) noexcept { uncount(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { uncount(p); }

namespace dtrain::sim::scale {
namespace {

class NoOptimizer final : public optim::Optimizer {
 public:
  std::vector<std::string> slot_names() const override { return {"momentum_buffer"}; }
  void update(const optim::UpdateContext&, size_t, const float*, const float*, float*, float* const*) const override {
    ADD_FAILURE() << "nothing is computed in a simulation";
  }
};

constexpr int64_t kMebi = 1 << 20;

// `layers` parameters of so many elements; forward takes one part of the time, backward two.
Model model(int layers, int64_t elements, Nanoseconds time) {
  Model m;
  m.optimizer = std::make_shared<NoOptimizer>();
  for (int p = 0; p < layers; ++p)
    m.parameters.push_back({.name = "p" + std::to_string(p), .shape = Shape({elements})});
  for (int p = 0; p < layers; ++p) m.compute.ops.push_back({.needs = {p}, .time = time / 3 / layers});
  m.compute.ops.push_back({.metrics = true});
  for (int p = layers; p-- > 0;) m.compute.ops.push_back({.time = time * 2 / 3 / layers, .makes = {{p, 0, elements}}});
  m.pool_bytes = [](uint32_t) { return size_t{64} << 20; };
  m.costs = {.message = 0, .write = 0, .receive = 0, .send = 0, .add = 0, .update = 0};
  m.link = {.bytes_per_second = 1e9 * Link::kOverhead, .latency = 10 * kMicrosecond};  // 1 GB/s of the stream
  return m;
}

double milliseconds(const Result<Outcome>& o) {
  EXPECT_TRUE(o.has_value()) << (o ? "" : o.error().message);
  return o ? static_cast<double>(o->step) / kMillisecond : 0;
}

// Its blocks are pushed when it is computed, and pulled while others are pushed.
TEST(ScaleCluster, OneLayerTravelsWhenItIsComputed) {
  Model m = model(1, 64 * kMebi / 4, 100 * kMillisecond);  // 67.1 MB: 67.1 ms in each direction
  m.ps = 1;
  const double step = milliseconds(simulate(m));
  EXPECT_GT(step, 100 + 67.1);
  EXPECT_LT(step, 100 + 67.1 + 3);
}

TEST(ScaleCluster, ManyLayersTravelWhileOthersCompute) {
  Model m = model(64, kMebi / 4, 300 * kMillisecond);
  m.ps = 1;
  const double step = milliseconds(simulate(m));
  EXPECT_GT(step, 300);
  EXPECT_LT(step, 300 + 10);  // what is in the socket when the front of the network is committed
  m.compute = model(64, kMebi / 4, 3 * kMillisecond).compute;
  const double bound = milliseconds(simulate(m));  // by the link: in and out overlap only at the ends
  EXPECT_GT(bound, 67.1);
  EXPECT_LT(bound, 2 * 67.1 + 6);
}

TEST(ScaleCluster, AServersLinkIsSharedByItsWorkers) {
  Model m = model(16, kMebi / 4, 3 * kMillisecond);  // 16.8 MB
  m.ps = 1;
  m.workers = 8;
  const Result<Outcome> one = simulate(m);
  EXPECT_GT(milliseconds(one), 8 * 16.8);
  EXPECT_LT(milliseconds(one), 2 * 8 * 16.8 + 10);
  EXPECT_EQ(std::string(bottleneck(one->busy)).substr(0, 11), "server link");
  m.ps = 4;
  const double four = milliseconds(simulate(m));
  EXPECT_LT(four, milliseconds(one) / 3);
  m.ps = 0;  // each worker holds two blocks
  EXPECT_LT(milliseconds(simulate(m)), four);
}

TEST(ScaleCluster, TheLoopThreadMayBeTheBottleneck) {
  Model m = model(16, kMebi / 4, 3 * kMillisecond);
  m.ps = 1;
  m.workers = 4;
  m.costs.add = 10;  // 0.1 GB/s
  const Result<Outcome> outcome = simulate(m);
  EXPECT_GT(milliseconds(outcome), 4 * 168);
  EXPECT_STREQ(bottleneck(outcome->busy), "server loop");
  EXPECT_GT(outcome->busy.sums, 0.9);
}

TEST(ScaleCluster, WithoutNetworkToSpeakOfWorkersScale) {
  Model m = model(16, 1000, 30 * kMillisecond);
  m.workers = 16;
  const Result<Outcome> outcome = simulate(m);
  EXPECT_LT(milliseconds(outcome), 31);
  EXPECT_STREQ(bottleneck(outcome->busy), "compute");
}

TEST(ScaleCluster, SharedCoresSlowWorkersDown) {
  Model m = model(4, 1000, 30 * kMillisecond);
  m.workers = 4;
  m.shared_cores = 2;
  const double step = milliseconds(simulate(m));
  EXPECT_GT(step, 55);
  EXPECT_LT(step, 65);
}

TEST(ScaleCluster, SeveralMicroBatchesAreOneNodeEach) {
  Model m = model(4, kMebi, 30 * kMillisecond);
  m.workers = 3;
  m.ps = 2;
  m.micro_batches = 3;  // nodes that cross the tree
  const double step = milliseconds(simulate(m));
  EXPECT_GT(step, 90);
}

TEST(ScaleCluster, NormsAreTakenInTheirRounds) {
  Model m = model(4, kMebi, 30 * kMillisecond);
  m.workers = 3;
  m.ps = 2;
  const double without = milliseconds(simulate(m));
  m.clips = true;
  EXPECT_GT(milliseconds(simulate(m)), without);
}

TEST(ScaleCluster, WhatWouldTakeLongerThanTimeLastsIsAnError) {
  for (const bool slow_link : {true, false}) {
    Model m = model(4, kMebi, 30 * kMillisecond);
    m.workers = 8;
    m.steps = 50;
    if (slow_link)
      m.link.bytes_per_second = 0.125;
    else
      m.costs.add = 1e300;
    const Result<Outcome> out = simulate(m);
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, ExitCode::kUsage);
    EXPECT_NE(out.error().message.find("36 years"), std::string::npos) << out.error().message;
  }
}

TEST(ScaleCluster, IsTheSameEveryTime) {
  Model m = model(8, kMebi / 2, 10 * kMillisecond);
  m.workers = 7;
  m.ps = 3;
  const Result<Outcome> a = simulate(m), b = simulate(m);
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->steps, b->steps);
  EXPECT_EQ(a->messages, b->messages);
}

// Sums of thousands of workers stay within the pool, and no message costs what grows with their number: else this would
// take minutes.
TEST(ScaleCluster, FourThousandWorkers) {
  Model m = model(4, kMebi / 4, 100 * kMillisecond);
  m.workers = 4000;
  m.ps = 4;
  m.steps = 1;
  const Result<Outcome> outcome = simulate(m);
  EXPECT_GT(milliseconds(outcome), 4000 * 1.0486);
  EXPECT_LE(outcome->largest_pool, (size_t{64} << 20));
}

// More steps than an hour has at a tenth of a second each: what the cluster has allocated does not grow.
TEST(ScaleCluster, MemoryIsFlat) {
  Model m = model(3, 20'000, 100 * kMillisecond);
  m.parameters.push_back({.name = "statistic", .shape = Shape({10}), .kind = ParameterKind::kStatistic});
  m.compute.ops.back().makes.push_back({3, 0, 10});
  m.compute.ops.front().needs.push_back(3);
  m.workers = 3;
  m.ps = 2;
  m.clips = true;
  m.steps = 40'000;
  int64_t early = 0, late = 0;
  m.on_step = [&](int64_t step) {
    if (step == 500) early = living;
    if (step == 40'000) late = living;
  };
  const Result<Outcome> outcome = simulate(m);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_GT(early, 10'000);
  EXPECT_LE(late, early + 4096) << "the first 500 steps took " << early;
}

}  // namespace
}  // namespace dtrain::sim::scale
