#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/place/place.h"
#include "tests/place/variables.h"

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

// What srun of Slurm 22.05 sets for the fourth of four tasks on two nodes.
const Variables kTask{{"SLURM_JOB_ID", "4217"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "3"},
                      {"SLURM_LOCALID", "0"},
                      {"SLURM_NODEID", "1"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_NPROCS", "4"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_STEP_NUM_NODES", "2"},
                      {"SLURM_STEP_NODELIST", "node[08-09]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
                      {"SLURM_DISTRIBUTION", "block"},
                      {"SLURM_JOB_NODELIST", "node[08-10]"},
                      {"SLURM_TASKS_PER_NODE", "4(x3)"}};
// And for a batch script, and a shell of salloc.
const Variables kBatch{{"SLURM_JOB_ID", "4217"},        {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "0"},           {"SLURM_NTASKS", "4"}, {"SLURM_TASKS_PER_NODE", "3,1"},
                       {"SLURM_JOB_NODELIST", "a[1-2]"}};

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

TEST(Slurm, HostsByRankAndReservedPorts) {
  const Place last = place(with(kTask, {{"SLURM_STEP_RESV_PORTS", "15662-15665"}}));
  ASSERT_TRUE(last.task);
  EXPECT_EQ(to_string(last.task->spec), "worker|node08:15662;node08:15663;node08:15664;node09:15662");
  EXPECT_EQ(last.task->self, (Task{"worker", 3}));
  EXPECT_TRUE(last.of_engine);
  EXPECT_EQ(last.sentence,
            "the cluster and this task are those of Slurm in the environment: SLURM_JOB_ID=4217, SLURM_STEP_ID=0, "
            "SLURM_PROCID=3, "
            "SLURM_NTASKS=4, SLURM_STEP_NODELIST=node[08-09]");
}

TEST(Slurm, OtherDistributions) {
  const Wishes port{.port_base = 2500};
  EXPECT_EQ(
      to_string(
          place(with(kTask, {{"SLURM_DISTRIBUTION", "cyclic"}, {"SLURM_LOCALID", "2"}, {"SLURM_NODEID", "0"}}), port)
              .task->spec),
      "worker|node08:2500;node09:2500;node08:2501;node08:2502");
  EXPECT_EQ(to_string(place(with(kTask, {{"SLURM_DISTRIBUTION", ""}}), port).task->spec),
            "worker|node08:2500;node08:2501;node08:2502;node09:2500");
  EXPECT_THAT(error(with(kTask, {{"SLURM_DISTRIBUTION", "arbitrary"}})), HasSubstr("srun --distribution=block"));
}

TEST(Slurm, PortsFollowFromJobAndStep) {
  const std::string one = to_string(place(kTask).task->spec);
  EXPECT_EQ(
      to_string(place(with(kTask, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}})).task->spec),
      one);
  EXPECT_NE(to_string(place(with(kTask, {{"SLURM_STEP_ID", "1"}})).task->spec), one);
  EXPECT_NE(to_string(place(with(kTask, {{"SLURM_JOB_ID", "4218"}})).task->spec), one);
}

TEST(Slurm, ThePortThatTheUserChoosesGoesFirst) {
  const Place last = place(with(kTask, {{"SLURM_STEP_RESV_PORTS", "15662-15665"}}), {.port_base = 2500});
  EXPECT_EQ(to_string(last.task->spec), "worker|node08:2500;node08:2501;node08:2502;node09:2500");
}

TEST(Slurm, TheFirstRanksAreParameterServers) {
  const Place last = place(kTask, {.ps = 2, .port_base = 2500});
  EXPECT_EQ(to_string(last.task->spec), "ps|node08:2500;node08:2501,worker|node08:2502;node09:2500");
  EXPECT_EQ(last.task->self, (Task{"worker", 1}));
  const Variables first = with(kTask, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(place(first, {.ps = 2}).task->self, (Task{"ps", 0}));
}

TEST(Slurm, AStepOfOneTaskIsASoloRun) {
  const Place alone = place(with(kTask, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(alone.task);
  EXPECT_THAT(alone.sentence, HasSubstr("the only task of Slurm"));
  // A shell that salloc opened as a step of its own still sees the job's number.
  EXPECT_FALSE(place(with(kTask, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).task);
}

TEST(Slurm, WithoutSrunItIsASoloRun) {
  const Place alone = place(kBatch);
  EXPECT_FALSE(alone.task);
  EXPECT_EQ(alone.sentence,
            "Slurm job 4217 without srun: this process trains alone; srun dtrain run … starts the tasks of a cluster");
  EXPECT_THAT(error(kBatch, {.ps = 1}), HasSubstr("Slurm job 4217 without srun"));
}

TEST(Slurm, WhatContradictsItself) {
  EXPECT_THAT(error(with(kTask, {{"SLURM_PROCID", "4"}})),
              HasSubstr("SLURM_PROCID=4 is no number from 0 to 3, but the step has SLURM_NTASKS=4"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_NTASKS", "5"}})), HasSubstr("SLURM_NTASKS=5, but SLURM_STEP_NUM_TASKS=4"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}})),
              HasSubstr("names 2 nodes, but SLURM_STEP_TASKS_PER_NODE=2(x2),1 counts the tasks of 3"));
  EXPECT_THAT(
      error(
          with(kTask, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}, {"SLURM_NTASKS", "5"}, {"SLURM_STEP_NUM_TASKS", "5"}})),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE=2(x2) are 4 tasks, but the step has 5"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_STEP_TASKS_PER_NODE", ""}})),
              HasSubstr("SLURM_STEP_TASKS_PER_NODE: '' is not"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_STEP_NODELIST", "node[08-"}})), HasSubstr("a '[' without its ']'"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_NODEID", "0"}})),
              HasSubstr("SLURM_NODEID=0, but a task of this number is expected at 1"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_LOCALID", "1"}})), HasSubstr("SLURM_LOCALID=1, but"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_STEP_RESV_PORTS", "15662-15663"}})),
              HasSubstr("are 2 ports, but 3 tasks share a node. Give srun --resv-ports=3"));
  EXPECT_THAT(error(with(kTask, {{"SLURM_STEP_RESV_PORTS", "x"}})),
              HasSubstr("SLURM_STEP_RESV_PORTS: 'x' is not a range"));
}

}  // namespace
}  // namespace dtrain::cluster
