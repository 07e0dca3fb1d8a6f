#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cluster/place/place.h"
#include "tests/place/variables.h"

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

// What Open MPI 4.1 sets for the second of three tasks on one host.
const Variables kHere{{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "3"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                      {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"OMPI_UNIVERSE_SIZE", "3"},
                      {"PMIX_NAMESPACE", "1112539137"},    {"PMIX_RANK", "1"},
                      {"PMIX_HOSTNAME", "node1"},          {"OMPI_MCA_ess_base_jobid", "1112539137"}};
const Variables kAcross = with(kHere, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});

Place place(const Variables& variables, const Wishes& wishes = {}) {
  const auto found = find_place({.wishes = wishes}, environment_of(variables));
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return found.value_or(Place{});
}
std::string error(const Variables& variables, const Wishes& wishes = {}) {
  const auto found = find_place({.wishes = wishes}, environment_of(variables));
  EXPECT_FALSE(found);
  if (found) return "";
  EXPECT_EQ(found.error().code, ExitCode::kUsage);
  return found.error().message;
}

TEST(OpenMpi, OnOneHostAllAreListed) {
  const Place second = place(kHere);
  ASSERT_TRUE(second.task);
  const ClusterSpec& spec = second.task->spec;
  EXPECT_EQ(spec.size(), 3);
  EXPECT_FALSE(spec.elastic());
  EXPECT_EQ(second.task->self, (Task{"worker", 1}));
  std::set<uint16_t> ports;
  for (const Task& task : spec.tasks()) {
    EXPECT_EQ(spec.address_of(task).host, "127.0.0.1");
    ports.insert(spec.address_of(task).port);
  }
  EXPECT_EQ(ports.size(), 3u);
  EXPECT_TRUE(second.of_engine);
  EXPECT_THAT(second.sentence,
              HasSubstr("those of Open MPI in the environment: OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=3"));
  EXPECT_EQ(identity(place(with(kHere, {{"OMPI_COMM_WORLD_RANK", "2"}})).task->spec), identity(spec));
  EXPECT_NE(identity(place(with(kHere, {{"PMIX_NAMESPACE", "1112539138"}})).task->spec), identity(spec))
      << "another job";
}

TEST(OpenMpi, ParameterServersAreTheFirstRanks) {
  EXPECT_EQ(place(kHere, {.ps = 1, .port_base = 2500}).task->self, (Task{"worker", 0}));
  EXPECT_EQ(to_string(place(kHere, {.ps = 2, .port_base = 2500}).task->spec),
            "ps|127.0.0.1:2500;127.0.0.1:2501,worker|127.0.0.1:2502");
  EXPECT_THAT(error(kHere, {.ps = 3}), HasSubstr("leaves no worker"));
}

TEST(OpenMpi, AcrossHostsTheUserSaysWhereRankZeroIs) {
  EXPECT_THAT(error(kAcross), HasSubstr("mpirun -x MASTER_ADDR=HOST"));
  const Place second = place(with(kAcross, {{"MASTER_ADDR", "node1"}}));
  ASSERT_TRUE(second.task);
  EXPECT_EQ(second.task->spec.size(), 3);
  EXPECT_EQ(second.task->spec.min_workers(), 3);
  EXPECT_FALSE(second.task->spec.listed(second.task->self));
  EXPECT_EQ(second.task->tasks_here, 2);
  EXPECT_EQ(identity(place(with(kAcross, {{"MASTER_ADDR", "node1"}, {"OMPI_COMM_WORLD_RANK", "2"}})).task->spec),
            identity(second.task->spec));
  EXPECT_EQ(to_string(place(with(kAcross, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "2600"}})).task->spec),
            "worker|node1:2600");
  EXPECT_EQ(to_string(place(with(kAcross, {{"MASTER_ADDR", "node1"}}), {.ps = 1, .port_base = 2500}).task->spec),
            "ps|node1:2500");
}

TEST(OpenMpi, WithoutANameOfTheJobThePortIsAsked) {
  const Variables none{{"PMIX_NAMESPACE", ""}, {"OMPI_MCA_ess_base_jobid", ""}};
  EXPECT_THAT(error(with(kHere, none)), HasSubstr("mpirun -x DTRAIN_PORT_BASE=PORT"));
  EXPECT_THAT(error(with(with(kAcross, none), {{"MASTER_ADDR", "node1"}})), HasSubstr("-x MASTER_PORT=PORT"));
  EXPECT_TRUE(place(with(kHere, none), {.port_base = 2500}).task);
}

TEST(OpenMpi, OneTaskIsASoloRun) {
  const Place alone = place(
      with(kHere, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}));
  EXPECT_FALSE(alone.task);
  EXPECT_THAT(alone.sentence, HasSubstr("the only task of Open MPI"));
}

TEST(OpenMpi, WhatCannotBeIsRefused) {
  EXPECT_THAT(error(with(kHere, {{"OMPI_COMM_WORLD_RANK", "3"}})), HasSubstr("of which OMPI_COMM_WORLD_SIZE=3 tasks"));
  EXPECT_THAT(error(with(kHere, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}})), HasSubstr("OMPI_COMM_WORLD_LOCAL_SIZE=4"));
  EXPECT_THAT(error(with(kHere, {{"OMPI_COMM_WORLD_SIZE", "many"}})),
              HasSubstr("OMPI_COMM_WORLD_SIZE=many is no number"));
  EXPECT_THAT(error(kHere, {.port_base = 65'534}), HasSubstr("need the ports up to 65536"));
}

}  // namespace
}  // namespace dtrain::cluster
