#include "cluster/place/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

PlacedTask placed(std::string_view json) {
  const auto result = parse_tf_config(json);
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(*result);
  return **result;
}

std::string error(std::string_view json) {
  const auto result = parse_tf_config(json);
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, ExitCode::kUsage);
  EXPECT_THAT(result.error().message, testing::StartsWith("TF_CONFIG"));
  return result.error().message;
}

TEST(TfConfig, WorkersAndServers) {
  const PlacedTask task = placed(
      R"({"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"], "ps": ["10.0.0.3:2222"]},
          "task": {"type": "worker", "index": 1}})");
  EXPECT_EQ(to_string(task.spec), "worker|10.0.0.1:2222;10.0.0.2:2222,ps|10.0.0.3:2222");
  EXPECT_EQ(task.self, (Task{"worker", 1}));
  EXPECT_EQ(placed(R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps"}})").self, (Task{"ps", 0}));
}

TEST(TfConfig, TheChiefIsTheFirstWorker) {
  const std::string cluster = R"({"cluster": {"worker": ["b:1", "c:1"], "chief": ["a:1"]}, "task": )";
  const PlacedTask chief = placed(cluster + R"({"type": "chief", "index": 0}})");
  EXPECT_EQ(chief.self, (Task{"worker", 0}));
  EXPECT_EQ(to_string(chief.spec), "worker|a:1;b:1;c:1");
  EXPECT_TRUE(chief.spec.serves({"worker", 0})) << "without ps tasks servers lie beside the workers";
  EXPECT_EQ(placed(cluster + R"({"type": "worker", "index": 1}})").self, (Task{"worker", 2}));
}

TEST(TfConfig, WithoutAClusterThereIsOneProcess) {
  for (const char* json : {"{}", R"({"cluster": {}})", R"({"task": {"type": "worker", "index": 0}})"}) {
    const auto result = parse_tf_config(json);
    ASSERT_TRUE(result) << json;
    EXPECT_FALSE(*result) << json;
  }
}

TEST(TfConfig, WhatCannotBeIsRefused) {
  const auto with = [](const std::string& cluster, const std::string& task) {
    return error(R"({"cluster": )" + cluster + R"(, "task": )" + task + "}");
  };
  const std::string one = R"({"worker": ["a:1"]})";
  EXPECT_THAT(error("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(error("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(error(R"({"cluster": 3})"), HasSubstr("no object of jobs"));
  EXPECT_THAT(error(R"({"cluster": {"worker": ["a:1"]}})"), HasSubstr("which task this is"));
  EXPECT_THAT(with(R"({"worker": "a:1"})", R"({"type": "worker"})"), HasSubstr("no list of addresses"));
  EXPECT_THAT(with(R"({"worker": [7]})", R"({"type": "worker"})"), HasSubstr("7, which is no address"));
  EXPECT_THAT(with(R"({"worker": ["a:1;b:1"]})", R"({"type": "worker"})"), HasSubstr("which is no address"));
  EXPECT_THAT(with(R"({"worker": ["a"]})", R"({"type": "worker"})"), HasSubstr("the port is missing"));
  EXPECT_THAT(with(R"({"wrker": ["a:1"]})", R"({"type": "worker"})"), HasSubstr("no job 'wrker'"));
  EXPECT_THAT(with(R"({"chief": ["a:1", "b:1"]})", R"({"type": "chief"})"), HasSubstr("more than one chief"));
  EXPECT_THAT(with(one, R"({"type": "worker", "index": 1})"), HasSubstr("no task 1 of the job 'worker', which has 1"));
  EXPECT_THAT(with(one, R"({"type": "worker", "index": -1})"), HasSubstr("no task -1"));
  EXPECT_THAT(with(one, R"({"type": "worker", "index": "0"})"), HasSubstr("no whole number"));
  EXPECT_THAT(with(one, R"({"type": "evaluator", "index": 0})"), HasSubstr("no evaluators"));
  EXPECT_THAT(with(one, R"({"type": "boss"})"), HasSubstr("no job 'boss'"));
}

}  // namespace
}  // namespace dtrain::cluster
