#include "cluster/place/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/place/variables.h"

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

const Variables kTf{
    {"TF_CONFIG", R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}};
const Variables kTorch{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "2500"}};
const Variables kMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"PMIX_NAMESPACE", "7"}};
const Variables kSlurmStep{{"SLURM_JOB_ID", "7"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "1"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_LOCALID", "0"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_STEP_NODELIST", "n[1-2]"},
                           {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

Given cluster_given(const std::string& spec, const std::string& job = "", int task = -1) {
  Given given{.job = job, .task = task};
  given.spec = *parse_cluster_spec(spec);
  return given;
}
std::string error(const Given& given, const Variables& variables) {
  const auto found = find_place(given, environment_of(variables));
  EXPECT_FALSE(found);
  if (found) return "";
  EXPECT_EQ(found.error().code, ExitCode::kUsage);
  return found.error().message;
}
std::string sentence(const Given& given, const Variables& variables) {
  const auto found = find_place(given, environment_of(variables));
  EXPECT_TRUE(found) << (found ? "" : found.error().message);
  return found ? found->sentence : "";
}
std::vector<Says> says(const Given& given, const Variables& variables) {
  std::vector<Says> out;
  for (const Finding& finding : survey(given, environment_of(variables))) out.push_back(finding.says);
  return out;
}
Variables all(std::initializer_list<Variables> parts) {
  Variables out;
  for (const Variables& part : parts) out.insert(part.begin(), part.end());
  return out;
}

TEST(Place, NothingIsASoloRun) {
  const auto found = find_place({}, environment_of({{"PATH", "/bin"}}));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->task);
  EXPECT_EQ(found->sentence, "");
}

TEST(Place, TheFirstOfTheOrderWins) {
  EXPECT_THAT(sentence({}, all({kSlurmStep, kMpi, kTorch, kTf})),
              HasSubstr("those of TF_CONFIG in the environment: /job:worker/task:1 of worker|a:1;b:1; the variables of "
                        "torchrun and Open "
                        "MPI and Slurm are there, too"));
  EXPECT_THAT(sentence({}, all({kSlurmStep, kMpi, kTorch})), HasSubstr("those of torchrun in the environment"));
  EXPECT_THAT(sentence({}, all({kSlurmStep, kMpi})), HasSubstr("those of Open MPI in the environment"));
  EXPECT_THAT(sentence({}, kSlurmStep), HasSubstr("those of Slurm in the environment"));
  EXPECT_THAT(sentence({}, all({kSlurmStep, {{"TF_CONFIG", "{}"}}})), HasSubstr("those of Slurm in"))
      << "it names no cluster";
}

// TF_CONFIG names tasks of a cluster of its own: beside one on the command line it has nothing to say.
TEST(Place, AClusterOnTheCommandLineGoesBeforeTfConfig) {
  const auto found = find_place(cluster_given("worker|a:1;b:1"), environment_of(all({kTorch, {{"TF_CONFIG", "{"}}})));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(to_string(found->task->self), "/job:worker/task:1");
}

TEST(Place, NonsenseIsNotPassedOver) {
  EXPECT_THAT(error({}, all({kSlurmStep, {{"TF_CONFIG", "{"}}})),
              HasSubstr("TF_CONFIG in the environment: it is no JSON object"));
  EXPECT_THAT(error({}, with(all({kSlurmStep, kTorch}), {{"RANK", "2"}})), HasSubstr("RANK=2"));
  // What comes after the winner does not matter.
  EXPECT_THAT(sentence({}, with(all({kSlurmStep, kTorch}), {{"SLURM_PROCID", "9"}})), HasSubstr("those of torchrun"));
}

TEST(Place, FlagsGoBeforeAll) {
  const auto found =
      find_place(cluster_given("worker|a:1;b:1", "worker", 0), environment_of(all({kTorch, {{"TF_CONFIG", "{"}}})));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->task->self, (Task{"worker", 0}));
  EXPECT_EQ(found->sentence, "");
  EXPECT_FALSE(found->of_engine);
}

TEST(Place, FlagsThatAreNotEnough) {
  EXPECT_THAT(error(cluster_given("worker|a:1;b:1"), {}),
              HasSubstr("which task of the cluster is this? Give --job_name and --task_id; "
                        "tasks: /job:worker/task:0, /job:worker/task:1"));
  EXPECT_THAT(error(cluster_given("worker|a:1;b:1", "worker"), kTorch), HasSubstr("which task of the cluster"));
  EXPECT_THAT(error(cluster_given("worker|a:1;b:1"), kTf), HasSubstr("which task of the cluster"))
      << "its ranks are of another cluster";
  EXPECT_THAT(error({.job = "worker", .task = 0}, kTorch), HasSubstr("--job_name and --task_id need a cluster"));
  Given options;
  options.wishes.spec.max_workers = 4;
  EXPECT_THAT(error(options, {}), HasSubstr("are of a cluster: give"));
  Given ps;
  ps.wishes.ps = 1;
  EXPECT_THAT(error(ps, {}), HasSubstr("dtrain launch --workers N --ps M"));
  EXPECT_THAT(error(ps, kTf), HasSubstr("--ps 1 does not go with it"));
  Given both = cluster_given("worker|a:1;b:1");
  both.wishes.ps = 1;
  EXPECT_THAT(error(both, kTorch), HasSubstr("says itself which tasks are parameter servers"));
}

TEST(Place, AClusterFromFlagsAndANumberFromAnEngine) {
  for (const Variables& engine : {kTorch, kMpi, with(kSlurmStep, {{"SLURM_DISTRIBUTION", "arbitrary"}})}) {
    const auto found = find_place(cluster_given("worker|127.0.0.1:1,ps|127.0.0.1:2"), environment_of(engine));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->task->self, (Task{"worker", 0})) << "of two tasks the second, since ps are numbered first";
    EXPECT_THAT(found->sentence, HasSubstr("this task is the one of its number in "));
    EXPECT_TRUE(found->of_engine);
  }
}

TEST(Place, AnotherNumberOfTasks) {
  EXPECT_THAT(error(cluster_given("worker|a:1;b:1;c:1"), kTorch),
              HasSubstr("the cluster has 3 tasks (/job:worker/task:0, /job:worker/task:1, "
                        "/job:worker/task:2), but torchrun has started 2"));
  EXPECT_THAT(error(cluster_given("worker|a:1"), kTorch), HasSubstr("the cluster has 1 tasks"));
  Given elastic;
  SpecOptions options;
  options.max_workers = 5;
  elastic.spec = *parse_cluster_spec("worker|a:1", options);
  EXPECT_TRUE(find_place(elastic, environment_of(kTorch))) << "others may join";
}

TEST(Place, OtherHostsThanTheEngines) {
  EXPECT_THAT(error(cluster_given("worker|n2:1;n1:1"), kSlurmStep),
              HasSubstr("/job:worker/task:1 of the cluster is at n1, but Slurm has started it on n2"));
  EXPECT_THAT(error(cluster_given("worker|127.0.0.1:1;127.0.0.1:2"), kSlurmStep),
              HasSubstr("is at 127.0.0.1, but Slurm"));
  EXPECT_THAT(error(cluster_given("worker|n1:1;n22:1"), kSlurmStep), HasSubstr("is at n22, but"));
  // The same, as far as can be told: a domain, another card, an address.
  for (const char* spec :
       {"worker|n1:1;n2:1", "worker|n1.x.org:1;n2.x.org:1", "worker|n1-ib:1;n2-ib:1", "worker|10.0.0.1:1;10.0.0.2:1"})
    EXPECT_TRUE(find_place(cluster_given(spec), environment_of(kSlurmStep))) << spec;
  // One host.
  const Variables here = with(kSlurmStep, {{"SLURM_STEP_NODELIST", "n1"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                           {"SLURM_NODEID", "0"},
                                           {"SLURM_LOCALID", "1"}});
  EXPECT_TRUE(find_place(cluster_given("worker|127.0.0.1:1;localhost:2"), environment_of(here)));
}

TEST(Place, ATaskThatIsNamedOnAHostOfAnother) {
  EXPECT_THAT(error(cluster_given("worker|n1:1;n2:1", "worker", 0), kSlurmStep),
              HasSubstr("/job:worker/task:0 of the cluster is at n1, but Slurm has started it on n2"));
  EXPECT_TRUE(find_place(cluster_given("worker|n1:1;n2:1", "worker", 1), environment_of(kSlurmStep)));
  EXPECT_TRUE(find_place(cluster_given("worker|n2:1;n1:1", "worker", 0), environment_of(kSlurmStep)))
      << "numbered otherwise, and right";
  EXPECT_TRUE(find_place(cluster_given("worker|127.0.0.1:1;127.0.0.1:2", "worker", 0), environment_of(kSlurmStep)))
      << "a cluster within a task";
}

TEST(Place, SurveySaysWhoWinsAndWhoIsThereToo) {
  using enum Says;
  EXPECT_EQ(says({}, {}), (std::vector{kNothing, kNothing, kNothing, kNothing, kNothing}));
  EXPECT_EQ(says({}, all({kMpi, kSlurmStep})), (std::vector{kNothing, kNothing, kNothing, kWins, kToo}));
  EXPECT_EQ(says(cluster_given("worker|a:1;b:1", "worker", 0), kTorch),
            (std::vector{kWins, kNothing, kToo, kNothing, kNothing}));
  EXPECT_EQ(says(cluster_given("worker|a:1;b:1"), all({kTf, kTorch})),
            (std::vector{kWins, kToo, kWins, kNothing, kNothing}));
  EXPECT_EQ(says({}, with(kTorch, {{"RANK", "7"}})), (std::vector{kNothing, kNothing, kNonsense, kNothing, kNothing}));
  EXPECT_EQ(says({}, with(kTorch, {{"MASTER_ADDR", ""}})),
            (std::vector{kNothing, kNothing, kNonsense, kNothing, kNothing}));
  EXPECT_EQ(says(cluster_given("worker|a:1", "worker", 3), {}),
            (std::vector{kNonsense, kNothing, kNothing, kNothing, kNothing}));
  const std::vector<Finding> findings = survey({}, environment_of(kSlurmStep));
  EXPECT_EQ(findings.back().source, "Slurm");
  EXPECT_THAT(findings.back().variables, HasSubstr("SLURM_PROCID"));
  EXPECT_THAT(findings.back().text, HasSubstr("SLURM_PROCID=1"));
}

}  // namespace
}  // namespace dtrain::cluster
