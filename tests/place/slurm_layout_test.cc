#include "cluster/place/slurm_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> nodes(const std::vector<TaskSpot>& spots) {
  std::vector<int> out;
  for (const TaskSpot& spot : spots) out.push_back(spot.node);
  return out;
}
std::vector<int> locals(const std::vector<TaskSpot>& spots) {
  std::vector<int> out;
  for (const TaskSpot& spot : spots) out.push_back(spot.local);
  return out;
}

TEST(SlurmLayout, TasksPerNode) {
  EXPECT_THAT(*parse_tasks_per_node("4"), ElementsAre(4));
  EXPECT_THAT(*parse_tasks_per_node("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*parse_tasks_per_node("1,8(x2)"), ElementsAre(1, 8, 8));
  for (const char* text : {"", "x", "2(x3", "2(x)", "2(x0)", "-1", "2,,1", "2(x99999)", "2(x3)4", "99999999999"}) {
    const auto result = parse_tasks_per_node(text);
    EXPECT_FALSE(result) << text;
  }
}

TEST(SlurmLayout, ReservedPorts) {
  EXPECT_THAT(*parse_reserved_ports("15662-15664"), ElementsAre(15662, 15663, 15664));
  EXPECT_THAT(*parse_reserved_ports("7,9-10"), ElementsAre(7, 9, 10));
  for (const char* text : {"", "a", "0-3", "9-8", "65535-65536", "1-", "-1"})
    EXPECT_FALSE(parse_reserved_ports(text)) << text;
  EXPECT_THAT(parse_reserved_ports("1-65535,1-65535")->size(), 65'536u) << "bounded";
}

// As Slurm 22.05 itself has put them.
TEST(SlurmLayout, BlockCyclicPlane) {
  EXPECT_THAT(nodes(layout({4, 2}, "block", 0)), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(locals(layout({4, 2}, "block", 0)), ElementsAre(0, 1, 2, 3, 0, 1));
  EXPECT_THAT(nodes(layout({4, 1}, "cyclic", 0)), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(locals(layout({4, 1}, "cyclic", 0)), ElementsAre(0, 0, 1, 2, 3));
  EXPECT_THAT(nodes(layout({4, 2}, "plane", 2)), ElementsAre(0, 0, 1, 1, 0, 0));
  EXPECT_THAT(locals(layout({4, 2}, "plane", 2)), ElementsAre(0, 1, 0, 1, 2, 3));
}

TEST(SlurmLayout, WhatIsAboutProcessorsIsLeftAside) {
  EXPECT_EQ(layout({2, 1}, "", 0), layout({2, 1}, "block", 0));
  EXPECT_EQ(layout({2, 1}, "*:cyclic", 0), layout({2, 1}, "block", 0));
  EXPECT_EQ(layout({2, 1}, "block:cyclic,Pack", 0), layout({2, 1}, "block", 0));
  EXPECT_EQ(layout({2, 2}, "cyclic:block:fcyclic", 0), layout({2, 2}, "cyclic", 0));
  EXPECT_EQ(layout({2, 2}, "plane=2", 2), layout({2, 2}, "plane", 2));
}

TEST(SlurmLayout, WhatDoesNotTell) {
  EXPECT_THAT(layout({2, 1}, "arbitrary", 0), IsEmpty());
  EXPECT_THAT(layout({2, 1}, "plane", 0), IsEmpty());
  EXPECT_THAT(layout({2, 1}, "spiral", 0), IsEmpty());
}

}  // namespace
}  // namespace dtrain::cluster
