#include "node/traffic_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ps/block_table.h"

namespace dtrain::node {
namespace {

using cluster::Placement;

// Twelve parameters of 1000 bytes: on 2, 3, 4 or 6 servers everyone holds the same.
std::vector<ParameterInfo> twelve() {
  std::vector<ParameterInfo> out;
  for (int i = 0; i < 12; ++i) out.push_back({"p" + std::to_string(i), {250}, ParameterKind::kTrainable});
  return out;
}
constexpr double kAll = 12'000;

TEST(TrafficEstimate, ServersOfTheirOwn) {
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kPs, {.ps = 2, .workers = 3}, 3);
  EXPECT_EQ(t.servers, 2u);
  EXPECT_EQ(t.ps, std::vector<Traffic>(2, {3 * kAll / 2, 3 * kAll / 2}));
  EXPECT_EQ(t.workers, std::vector<Traffic>(3, {kAll, kAll}));
}

TEST(TrafficEstimate, BesideTheWorkersAsInARing) {
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 6u}) {
    const PlacementTraffic t = estimate_traffic(twelve(), Placement::kWorkers, {.ps = 5, .workers = workers}, workers);
    const double each = 2 * (workers - 1.0) / workers * kAll;
    EXPECT_TRUE(t.ps.empty()) << "these tasks are not there in this placement";
    EXPECT_EQ(t.workers, std::vector<Traffic>(workers, {each, each}));
  }
}

TEST(TrafficEstimate, Mixed) {
  // Four servers of 3000 bytes, two of them beside the workers.
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kAll, {.ps = 2, .workers = 2}, 2);
  EXPECT_EQ(t.servers, 4u);
  EXPECT_EQ(t.ps, std::vector<Traffic>(2, {6'000, 6'000}));
  EXPECT_EQ(t.workers, std::vector<Traffic>(2, {9'000 + 3'000, 9'000 + 3'000}));
}

TEST(TrafficEstimate, WhoJoinsHoldsNothing) {
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kWorkers, {.ps = 0, .workers = 2, .joiners = 1}, 3);
  EXPECT_EQ(t.servers, 2u);
  EXPECT_EQ(t.workers[0], (Traffic{6'000 + 2 * 6'000, 6'000 + 2 * 6'000}));
  EXPECT_EQ(t.workers[2], (Traffic{kAll, kAll}));
}

TEST(TrafficEstimate, SeveralNodesAWorker) {
  // Of five micro-batches [0, 2) is a node, and [2, 5) is the nodes [2, 4) and [4, 5).
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kPs, {.ps = 1, .workers = 2}, 5);
  EXPECT_EQ(t.workers[0], (Traffic{kAll, kAll}));
  EXPECT_EQ(t.workers[1], (Traffic{2 * kAll, kAll}));
  EXPECT_EQ(t.ps[0], (Traffic{2 * kAll, 3 * kAll}));
}

TEST(TrafficEstimate, AnIdleWorkerPullsAllTheSame) {
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kPs, {.ps = 1, .workers = 3}, 2);
  std::vector<double> sent;
  for (const Traffic& w : t.workers) {
    sent.push_back(w.sent);
    EXPECT_EQ(w.received, kAll);
  }
  std::sort(sent.begin(), sent.end());
  EXPECT_EQ(sent, (std::vector<double>{0, kAll, kAll}));
  EXPECT_EQ(t.ps[0], (Traffic{3 * kAll, 2 * kAll}));
}

TEST(TrafficEstimate, FrozenBlocksRestAndStatisticsMove) {
  std::vector<ParameterInfo> parameters = twelve();
  parameters.push_back({"mean", {25}, ParameterKind::kStatistic});
  parameters.push_back({"still", {100'000}, ParameterKind::kFrozen});
  const PlacementTraffic t = estimate_traffic(parameters, Placement::kPs, {.ps = 1, .workers = 2}, 2);
  EXPECT_EQ(t.workers[0], (Traffic{kAll + 100, kAll + 100}));
  EXPECT_EQ(t.ps[0], (Traffic{2 * (kAll + 100), 2 * (kAll + 100)}));
}

TEST(TrafficEstimate, FollowsTheBlocksWhereTheyDoNotComeOutEven) {
  const std::vector<ParameterInfo> parameters{{"w", {600'000}, ParameterKind::kTrainable},
                                              {"b", {1'000}, ParameterKind::kTrainable}};
  const ps::BlockTable table(parameters, 2);
  const double first = 4.0 * static_cast<double>(table.server_elements(0));
  const double second = 4.0 * static_cast<double>(table.server_elements(1));
  ASSERT_GT(first, second);
  const PlacementTraffic t = estimate_traffic(parameters, Placement::kWorkers, {.workers = 2}, 2);
  EXPECT_EQ(t.workers[0], (Traffic{second + first, second + first}));
  EXPECT_EQ(t.workers[1], (Traffic{first + second, first + second}));
  const PlacementTraffic p = estimate_traffic(parameters, Placement::kPs, {.ps = 2, .workers = 2}, 2);
  EXPECT_EQ(largest(p.ps), (Traffic{2 * first, 2 * first}));
}

TEST(TrafficEstimate, ModesThatPushOtherwise) {
  const TaskCounts tasks{.ps = 1, .workers = 2};
  consistency::Mode apart;
  apart.single = true;
  EXPECT_EQ(estimate_traffic(twelve(), Placement::kPs, tasks, 8, apart).workers[0], (Traffic{4 * kAll, kAll}));
  consistency::Mode local;
  local.stride = 20;
  EXPECT_EQ(estimate_traffic(twelve(), Placement::kPs, tasks, 2, local).ps[0], (Traffic{kAll / 10, kAll / 10}));
  consistency::Mode downpour;
  downpour.lockstep = false;
  downpour.push_every = 2;
  downpour.fetch_every = 4;
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kPs, tasks, 8, downpour);
  EXPECT_EQ(t.workers[0], (Traffic{2 * kAll, kAll}));
  EXPECT_EQ(t.ps[0], (Traffic{2 * kAll, 4 * kAll}));
}

std::shared_ptr<const compress::Method> method(const char* name) {
  config::Diagnostics diagnostics;
  return compress::read_method(config::Value(std::string(name), config::Position()), "compression", {}, diagnostics);
}

TEST(TrafficEstimate, CompressionTakesItsOwnDirection) {
  std::vector<ParameterInfo> parameters = twelve();
  parameters.push_back({"mean", {25}, ParameterKind::kStatistic});  // travels as it is
  TravelForm form;
  form.gradients = method("fp16");
  PlacementTraffic t = estimate_traffic(parameters, Placement::kPs, {.ps = 1, .workers = 2}, 2, {}, form);
  EXPECT_EQ(t.workers[0], (Traffic{kAll / 2 + 100, kAll + 100}));
  EXPECT_EQ(t.ps[0], (Traffic{2 * (kAll + 100), kAll + 200}));
  form.gradients = nullptr;
  form.pulls = method("bf16");
  t = estimate_traffic(parameters, Placement::kPs, {.ps = 1, .workers = 2}, 2, {}, form);
  EXPECT_EQ(t.workers[0], (Traffic{kAll + 100, kAll / 2 + 100}));
}

// Of a method that warms up what it takes from then on.
TEST(TrafficEstimate, CompressedChunkByChunk) {
  const int64_t elements = 2 * kChunkElements + 100;
  TravelForm form;
  form.gradients = method("topk");
  const auto t = estimate_traffic({{"w", {elements}, ParameterKind::kTrainable}}, Placement::kPs,
                                  {.ps = 1, .workers = 1}, 1, {}, form);
  EXPECT_EQ(t.workers[0].sent, static_cast<double>(2 * form.gradients->lasting_bytes(kChunkElements) +
                                                   form.gradients->lasting_bytes(100)));
  EXPECT_LT(t.workers[0].sent, t.workers[0].received / 30);
}

TEST(TrafficEstimate, RowsOfEveryMicroBatchFromAllServersAlike) {
  TravelForm form;
  form.rows_sent = 600;
  form.rows_received = 300;
  // Three micro-batches on two workers: one has two of them.
  const PlacementTraffic apart = estimate_traffic({}, Placement::kPs, {.ps = 2, .workers = 2}, 3, {}, form);
  EXPECT_EQ(apart.ps, std::vector<Traffic>(2, {3 * 150, 3 * 300}));
  EXPECT_EQ(apart.workers[0].sent + apart.workers[1].sent, 3 * 600);
  EXPECT_EQ(apart.workers[0].received + apart.workers[1].received, 3 * 300);
  // Beside the workers half of the rows are at hand, and each serves the other.
  const PlacementTraffic beside = estimate_traffic({}, Placement::kWorkers, {.workers = 2}, 2, {}, form);
  EXPECT_EQ(beside.workers, std::vector<Traffic>(2, {300 + 150, 150 + 300}));
}

TEST(TrafficEstimate, TheSlowestLinkIsTheBottleneck) {
  const PlacementTraffic t = estimate_traffic(twelve(), Placement::kPs, {.ps = 1, .workers = 2}, 5);
  const Bottleneck equal = find_bottleneck(t, {.ps = 1'000, .worker = 1'000});
  EXPECT_EQ(equal.role, cluster::Role::kPs);
  EXPECT_FALSE(equal.sends);
  EXPECT_DOUBLE_EQ(equal.seconds, 36);
  const Bottleneck slow_workers = find_bottleneck(t, {.ps = 10'000, .worker = 1'000});
  EXPECT_EQ(slow_workers.role, cluster::Role::kWorker);
  EXPECT_TRUE(slow_workers.sends);
  EXPECT_DOUBLE_EQ(slow_workers.seconds, 24);
}

}  // namespace
}  // namespace dtrain::node
