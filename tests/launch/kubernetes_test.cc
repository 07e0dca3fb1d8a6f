#include "launch/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/yaml.h"

namespace dtrain::launch {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

KubernetesRun run() {
  KubernetesRun run;
  run.name = "lenet";
  run.image = "dtrain:1";
  run.run_file = "name = \"lenet\"\n\n[train]\nbatch = 8\n";
  run.workers = 3;
  run.ps = 2;
  run.secret = "0123456789abcdef";
  run.cpu = "2";
  run.worker_memory = run.ps_memory = "512Mi";
  run.storage = "1Gi";
  return run;
}

TEST(Yaml, EveryKindOfValue) {
  const Json value = {{"name", "lenet"},      {"empty", ""},           {"number", 3},
                      {"text of one", "3"},   {"yes", "no"},           {"On", "on"},
                      {"list", {1, "a"}},     {"none", Json::array()}, {"object", {{"a", {{"b", true}}}}},
                      {"odd", "a: #\"b\"\t"}, {"nothing", nullptr}};
  EXPECT_EQ(to_yaml(value),
            "name: lenet\nempty: \"\"\nnumber: 3\n\"text of one\": \"3\"\n\"yes\": \"no\"\n\"On\": \"on\"\nlist:\n  - "
            "1\n  - a\n"
            "none: []\nobject:\n  a:\n    b: true\nodd: \"a: #\\\"b\\\"\\t\"\nnothing: null\n");
}

TEST(Yaml, ObjectsInListsAndListsInLists) {
  const Json value = {{"rules", Json::array({{{"a", 1}, {"b", {{"c", 2}}}}, Json::array({1, 2})})}};
  EXPECT_EQ(to_yaml(value), "rules:\n  - a: 1\n    b:\n      c: 2\n  -\n    - 1\n    - 2\n");
}

TEST(Yaml, TextsOfSeveralLines) {
  EXPECT_EQ(to_yaml({{"file", "a = 1\n\n  b = 2\n"}}), "file: |\n  a = 1\n\n    b = 2\n");
  // Where a block would not keep it as it is.
  for (const char* text : {"no end", " begins with a blank\n", "ends with\n\n", "a\ttab\n", "\n"})
    EXPECT_THAT(to_yaml({{"file", text}}), Not(HasSubstr("|"))) << text;
}

TEST(Kubernetes, NamesOfObjects) {
  EXPECT_EQ(kubernetes_name("LeNet fashion_2"), "lenet-fashion-2");
  EXPECT_EQ(kubernetes_name("2nd"), "run-2nd");
  EXPECT_EQ(kubernetes_name("--"), "run");
  EXPECT_EQ(kubernetes_name("日本"), "run");
  EXPECT_LE(kubernetes_name(std::string(200, 'a')).size(), 40u);
}

TEST(Kubernetes, TasksFindEachOtherByNamesOfPods) {
  const std::string text = kubernetes_manifests(run());
  EXPECT_THAT(text, HasSubstr("      \"lenet-ps-1.lenet:2500\",\n"));
  EXPECT_THAT(text, HasSubstr("      \"lenet-worker-2.lenet:2500\",\n"));
  EXPECT_THAT(text, HasSubstr("clusterIP: None\n"));
  EXPECT_THAT(text, HasSubstr("  replicas: 2\n"));
  EXPECT_THAT(text, HasSubstr("  completions: 3\n"));
}

// A pod's own name may lead nowhere yet when it starts.
TEST(Kubernetes, PodsListenAtTheirAddress) {
  const std::string text = kubernetes_manifests(run());
  EXPECT_THAT(text, HasSubstr("- \"--listen\"\n            - \"$(POD_IP)\"\n"));
  EXPECT_THAT(text, HasSubstr("- name: POD_IP\n              valueFrom:\n                fieldRef:\n"
                              "                  fieldPath: status.podIP\n"));
}

TEST(Kubernetes, TheSecretIsInTheSecretAlone) {
  const std::string text = kubernetes_manifests(run());
  const size_t at = text.find("0123456789abcdef");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(at, text.find("---")) << "in the first document";
  EXPECT_THAT(text.substr(0, at), HasSubstr("kind: Secret"));
  EXPECT_EQ(text.find("0123456789abcdef", at + 1), std::string::npos);
}

TEST(Kubernetes, WithoutServersThereIsNoStatefulSet) {
  KubernetesRun only_workers = run();
  only_workers.ps = 0;
  const std::string text = kubernetes_manifests(only_workers);
  EXPECT_THAT(text, Not(HasSubstr("StatefulSet")));
  EXPECT_THAT(text, Not(HasSubstr("jobs.ps")));
}

TEST(Kubernetes, ClaimsAreMounted) {
  KubernetesRun claims = run();
  EXPECT_THAT(kubernetes_manifests(claims), HasSubstr("volumeClaimTemplates"));
  claims.out_claim = "shared";
  claims.data_claims = {{"photos", "/data/photos"}};
  const std::string text = kubernetes_manifests(claims);
  EXPECT_THAT(text, Not(HasSubstr("volumeClaimTemplates")));
  EXPECT_THAT(text, HasSubstr("claimName: shared"));
  EXPECT_THAT(text, HasSubstr("mountPath: /data/photos"));
}

TEST(Kubernetes, WhatAnotherTryDoesNotMendEndsTheJob) {
  const std::string text = kubernetes_manifests(run());
  const size_t moved =
      text.find("      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n");
  const size_t failed = text.find(
      "      - action: FailJob\n        onExitCodes:\n          containerName: dtrain\n"
      "          operator: In\n          values:\n            - 2\n            - 3\n            - 5\n"
      "            - 6\n            - 7\n      - action: Count\n");
  EXPECT_NE(failed, std::string::npos);
  EXPECT_LT(moved, failed) << "the first rule that fits counts";
}

}  // namespace
}  // namespace dtrain::launch
