#include "launch/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<HostEntry> read(const std::string& text) {
  auto hosts = parse_hostfile(text, "hosts");
  EXPECT_TRUE(hosts) << hosts.error().message;
  return hosts ? *hosts : std::vector<HostEntry>{};
}

std::string error(const std::string& text) {
  const auto hosts = parse_hostfile(text, "hosts");
  if (hosts) return "no error";
  EXPECT_EQ(hosts.error().code, ExitCode::kUsage);
  return hosts.error().message;
}

// "ps/0@0 worker/0@1 …"
std::string placed(const std::string& text, int workers, int ps) {
  const auto tasks = place_tasks(read(text), workers, ps);
  if (!tasks) return tasks.error().message;
  std::string out;
  for (const PlacedHostTask& t : *tasks)
    out += (out.empty() ? "" : " ") + t.task.job + std::to_string(t.task.index) + "@" + std::to_string(t.host);
  return out;
}

TEST(Hostfile, EverythingThatALineCanSay) {
  const auto hosts = read(
      "# the office\n\nalice@big:2222 slots=4 role=ps # a comment\r\n  box\taddress=10.0.0.7\n[fe80::1]:22 slots=2");
  ASSERT_EQ(hosts.size(), 3u);
  EXPECT_EQ(hosts[0].host, "alice@big");
  EXPECT_EQ(hosts[0].ssh_port, 2222);
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[0].role, cluster::Role::kPs);
  EXPECT_EQ(hosts[1].host, "box");
  EXPECT_EQ(hosts[1].ssh_port, 0);
  EXPECT_EQ(hosts[1].slots, 1);
  EXPECT_FALSE(hosts[1].role);
  EXPECT_EQ(hosts[1].address, "10.0.0.7");
  EXPECT_EQ(hosts[2].host, "fe80::1");
  EXPECT_EQ(hosts[2].ssh_port, 22);
}

TEST(Hostfile, RangesStandForManyHosts) {
  std::vector<std::string> names;
  for (const HostEntry& host : read("bob@node[08-10,12]:2022 slots=2\n")) {
    names.push_back(host.host);
    EXPECT_EQ(host.slots, 2);
    EXPECT_EQ(host.ssh_port, 2022);
  }
  EXPECT_THAT(names, ElementsAre("bob@node08", "bob@node09", "bob@node10", "bob@node12"));
}

TEST(Hostfile, MistakesAreNamedWithTheirLine) {
  EXPECT_THAT(error(""), HasSubstr("hosts names no host"));
  EXPECT_THAT(error("a\nb slot=2"), HasSubstr("hosts:2: error: unknown 'slot=2' (did you mean 'slots'?)"));
  EXPECT_THAT(error("a b"), HasSubstr("hosts:1: error: unknown 'b'"));
  EXPECT_THAT(error("a slots=0"), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(error("a slots="), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(error("a role=chief"), HasSubstr("role is ps or worker"));
  EXPECT_THAT(error("a:70000"), HasSubstr("port of ssh"));
  EXPECT_THAT(error("a:4:5"), HasSubstr("port of ssh"));
  EXPECT_THAT(error(":22"), HasSubstr("names no host"));
  EXPECT_THAT(error("-oProxyCommand=x"), HasSubstr("no name of a host"));
  EXPECT_THAT(error("root@-oProxyCommand=x"), HasSubstr("no name of a host"));
  EXPECT_THAT(error("a[1-2] address=10.0.0.1"), HasSubstr("several"));
  EXPECT_THAT(error("a address="), HasSubstr("empty"));
  EXPECT_THAT(error("a\n\n# b\na slots=2"), HasSubstr("hosts:4: error: a is in line 1 already"));
  EXPECT_THAT(error("node[1-3]\nnode2"), HasSubstr("hosts:2: error: node2 is in line 1 already"));
  EXPECT_THAT(error("node[1-"), HasSubstr("hosts:1: error: "));
}

TEST(Hostfile, TwoServersOfSshOnOneHostAreTwoHosts) { EXPECT_EQ(read("a:22\na:23\n").size(), 2u); }

TEST(PlaceTasks, WorkersHostByHostServersInTurn) {
  EXPECT_EQ(placed("a slots=2\nb slots=3", 3, 2), "ps0@0 ps1@1 worker0@0 worker1@1 worker2@1");
  EXPECT_EQ(placed("a slots=2\nb slots=3", 3, 0), "worker0@0 worker1@0 worker2@1");
}

TEST(PlaceTasks, WithoutANumberEverySlotIsAWorker) {
  EXPECT_EQ(placed("a slots=2\nb", -1, 0), "worker0@0 worker1@0 worker2@1");
  EXPECT_EQ(placed("a slots=2\nb", -1, 1), "ps0@0 worker0@0 worker1@1");
}

TEST(PlaceTasks, RolesAreKept) {
  EXPECT_EQ(placed("a slots=2 role=worker\nb slots=2 role=ps", 2, 2), "ps0@1 ps1@1 worker0@0 worker1@0");
}

TEST(PlaceTasks, TooFewSlotsAreAnError) {
  EXPECT_THAT(placed("a\nb", 3, 0),
              HasSubstr("3 worker tasks are wanted, and there is room for 2 (2 slots on 2 hosts"));
  EXPECT_THAT(placed("a role=ps\nb slots=9 role=worker", 2, 2),
              HasSubstr("2 ps tasks are wanted, and there is room for 1"));
  EXPECT_THAT(placed("a", -1, 1), HasSubstr("1 worker task is wanted, and there is room for 0"));
}

}  // namespace
}  // namespace dtrain::launch
