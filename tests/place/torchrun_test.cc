#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/place/place.h"
#include "tests/place/variables.h"

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

// What torchrun 2.1 sets for the third of four tasks on two hosts.
const Variables kTask{{"RANK", "2"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "0"},
                      {"LOCAL_WORLD_SIZE", "2"},
                      {"GROUP_RANK", "1"},
                      {"ROLE_RANK", "2"},
                      {"MASTER_ADDR", "node1"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                      {"OMP_NUM_THREADS", "1"}};

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

TEST(Torchrun, RankZeroHoldsTheParametersAndTheOthersDialIt) {
  const Place third = place(kTask);
  ASSERT_TRUE(third.task);
  const ClusterSpec& spec = third.task->spec;
  EXPECT_EQ(to_string(spec), "worker|node1:29500");
  EXPECT_EQ(spec.size(), 4);
  EXPECT_EQ(spec.min_workers(), 4) << "the run begins when all are there";
  EXPECT_EQ(third.task->self, (Task{"worker", 2}));
  EXPECT_FALSE(spec.listed(third.task->self));
  EXPECT_EQ(spec.servers().size(), 1u);
  EXPECT_EQ(third.task->tasks_here, 2);
  EXPECT_TRUE(third.of_engine);
  EXPECT_EQ(
      third.sentence,
      "the cluster and this task are those of torchrun in the environment: RANK=2, WORLD_SIZE=4, MASTER_ADDR=node1, "
      "MASTER_PORT=29500");
  const Place first = place(with(kTask, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}));
  EXPECT_EQ(first.task->self, spec.coordinator());
  EXPECT_EQ(identity(first.task->spec), identity(spec));
}

TEST(Torchrun, ThePortOfItsAgentIsLeftToIt) {
  EXPECT_EQ(to_string(place(with(kTask, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).task->spec), "worker|node1:29501");
  EXPECT_EQ(to_string(place(kTask, {.port_base = 2500}).task->spec), "worker|node1:2500");
  EXPECT_EQ(to_string(place(with(kTask, {{"MASTER_PORT", ""}}), {.port_base = 2500}).task->spec), "worker|node1:2500");
  EXPECT_THAT(error(with(kTask, {{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}})),
              HasSubstr("MASTER_PORT=65535 is no number from 1 to 65534"));
}

TEST(Torchrun, AnAddressOfIPv6) {
  EXPECT_EQ(to_string(place(with(kTask, {{"MASTER_ADDR", "fd00::7"}})).task->spec), "worker|[fd00::7]:29500");
}

TEST(Torchrun, AParameterServer) {
  const Place first = place(with(kTask, {{"RANK", "0"}}), {.ps = 1});
  EXPECT_EQ(to_string(first.task->spec), "ps|node1:29500");
  EXPECT_EQ(first.task->self, (Task{"ps", 0}));
  const Place last = place(with(kTask, {{"RANK", "3"}}), {.ps = 1});
  EXPECT_EQ(last.task->self, (Task{"worker", 2}));
  EXPECT_EQ(last.task->spec.min_workers(), 3);
  EXPECT_THAT(error(kTask, {.ps = 2}), HasSubstr("give --ps 1"));
  EXPECT_THAT(error(kTask, {.ps = 4}), HasSubstr("--ps 4 of 4 tasks leaves no worker"));
}

TEST(Torchrun, OtherNumbersOfWorkers) {
  Wishes wishes;
  wishes.spec.max_workers = 9;
  wishes.spec.min_workers = 2;
  EXPECT_EQ(place(kTask, wishes).task->spec.size(), 9);
  EXPECT_EQ(place(kTask, wishes).task->spec.min_workers(), 2);
  wishes.spec.max_workers = 2;
  EXPECT_THAT(error(kTask, wishes), HasSubstr("4 tasks were started, and --max_workers lets no more than 2"));
}

TEST(Torchrun, OneTaskIsASoloRun) {
  const Place alone = place(with(kTask, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "1"}}));
  EXPECT_FALSE(alone.task);
  EXPECT_THAT(alone.sentence, HasSubstr("the only task of torchrun: RANK=0, WORLD_SIZE=1"));
}

TEST(Torchrun, HalfOfItIsNothing) {
  for (const Variables& variables : {Variables{{"RANK", "1"}}, Variables{{"WORLD_SIZE", "2"}},
                                     Variables{{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}}) {
    EXPECT_FALSE(place(variables).task);
    EXPECT_EQ(place(variables).sentence, "");
  }
}

TEST(Torchrun, WhatCannotBeIsRefused) {
  EXPECT_THAT(error(with(kTask, {{"RANK", "4"}})),
              HasSubstr("RANK=4 is no number from 0 to 3, of which WORLD_SIZE=4 tasks"));
  EXPECT_THAT(error(with(kTask, {{"RANK", "two"}})), HasSubstr("RANK=two is no number"));
  EXPECT_THAT(error(with(kTask, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE=0 is no number from 1"));
  EXPECT_THAT(error(with(kTask, {{"LOCAL_WORLD_SIZE", "5"}})), HasSubstr("LOCAL_WORLD_SIZE=5"));
  EXPECT_THAT(error(with(kTask, {{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR does not say where rank 0 is"));
  EXPECT_THAT(error(with(kTask, {{"MASTER_PORT", ""}})), HasSubstr("MASTER_ADDR=node1, but no MASTER_PORT"));
  EXPECT_THAT(error(with(kTask, {{"MASTER_PORT", "0"}})), HasSubstr("MASTER_PORT=0 is no number from 1 to 65535"));
  EXPECT_THAT(error(with(kTask, {{"MASTER_ADDR", "a;b"}})), HasSubstr("'a;b' is no name and no address"));
}

// N tasks of it would each train by itself, without a word.
TEST(Torchrun, HalfALaunchIsNone) {
  EXPECT_THAT(error({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), HasSubstr("MASTER_ADDR and WORLD_SIZE, but no RANK"));
  EXPECT_THAT(error({{"RANK", "0"}, {"MASTER_ADDR", "a"}}), HasSubstr("MASTER_ADDR and RANK, but no WORLD_SIZE"));
  EXPECT_FALSE(place({{"RANK", "0"}}).task) << "it may be anybody's";
}

}  // namespace
}  // namespace dtrain::cluster
