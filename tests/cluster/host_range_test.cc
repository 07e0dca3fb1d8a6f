#include "cluster/host_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> hosts(std::string_view text) {
  const auto result = expand_hosts(text);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or(std::vector<std::string>());
}

std::string error(std::string_view text) {
  const auto result = expand_hosts(text);
  EXPECT_FALSE(result) << text;
  if (result) return "";
  EXPECT_EQ(result.error().code, ExitCode::kUsage);
  return result.error().message;
}

TEST(HostRange, NamesAsTheyAre) {
  EXPECT_THAT(hosts("login"), ElementsAre("login"));
  EXPECT_THAT(hosts("a.example.org,10.0.0.7, b-2"), ElementsAre("a.example.org", "10.0.0.7", "b-2"));
  EXPECT_THAT(hosts("n1,n1"), ElementsAre("n1", "n1"));
}

TEST(HostRange, RangesKeepTheirWidth) {
  EXPECT_THAT(hosts("node[1-3]"), ElementsAre("node1", "node2", "node3"));
  EXPECT_THAT(hosts("node[08-11]"), ElementsAre("node08", "node09", "node10", "node11"));
  EXPECT_THAT(hosts("node[9-11]"), ElementsAre("node9", "node10", "node11"));
  EXPECT_THAT(hosts("n[01-02,20,003]"), ElementsAre("n01", "n02", "n20", "n003"));
  EXPECT_THAT(hosts("n[7]"), ElementsAre("n7"));
  EXPECT_THAT(hosts("n[99-101]-ib.example"), ElementsAre("n99-ib.example", "n100-ib.example", "n101-ib.example"));
}

TEST(HostRange, SeveralInOneListAndOneName) {
  EXPECT_THAT(hosts("gpu[3-4],login,cpu[1,5]"), ElementsAre("gpu3", "gpu4", "login", "cpu1", "cpu5"));
  EXPECT_THAT(hosts("r[1-2]n[01-02]"), ElementsAre("r1n01", "r1n02", "r2n01", "r2n02"));
  EXPECT_THAT(hosts("[1-2]"), ElementsAre("1", "2"));
}

TEST(HostRange, WhatCannotBeIsRefused) {
  EXPECT_THAT(error(""), HasSubstr("a name is missing"));
  EXPECT_THAT(error("a,,b"), HasSubstr("a name is missing"));
  EXPECT_THAT(error("a,"), HasSubstr("a name is missing"));
  EXPECT_THAT(error("a b"), HasSubstr("a space within a name"));
  EXPECT_THAT(error("n[1-2"), HasSubstr("a '[' without its ']'"));
  EXPECT_THAT(error("n1-2]"), HasSubstr("a ']' without its '['"));
  EXPECT_THAT(error("n[1-2]]"), HasSubstr("a ']' without its '['"));
  EXPECT_THAT(error("n[[1-2]]"), HasSubstr("is no number"));
  EXPECT_THAT(error("n[]"), HasSubstr("is no number"));
  EXPECT_THAT(error("n[1,]"), HasSubstr("'' in brackets is no number"));
  EXPECT_THAT(error("n[a-b]"), HasSubstr("'a-b' in brackets is no number"));
  EXPECT_THAT(error("n[1-2-3]"), HasSubstr("'1-2-3' in brackets is no number"));
  EXPECT_THAT(error("n[4-2]"), HasSubstr("the range 4-2 runs backwards"));
  EXPECT_THAT(error("[::1]"), HasSubstr("'::1' in brackets is no number"));
}

TEST(HostRange, ALargeListIsRefusedBeforeItIsMade) {
  EXPECT_EQ(hosts("n[1-65536]").size(), kMaxHosts);
  EXPECT_THAT(error("n[1-65537]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(error("n[0-999999999]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(error("n[0-99999999999999999999]"), HasSubstr("is no number"));
  EXPECT_THAT(error("n[1-40000,1-40000]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(error("a[1-300]b[1-300]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(error("a[1-60000],b[1-60000]"), HasSubstr("more than 65536 hosts"));
}

}  // namespace
}  // namespace dtrain::cluster
