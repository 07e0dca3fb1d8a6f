#include "cluster/place/job_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace dtrain::cluster {
namespace {

using testing::HasSubstr;

TEST(JobPorts, AllTasksOfAJobKnowThem) {
  EXPECT_EQ(*first_port("slurm 7.0", 4, {}), *first_port("slurm 7.0", 4, {}));
  EXPECT_NE(*first_port("slurm 7.0", 4, {}), *first_port("slurm 7.1", 4, {}));
}

TEST(JobPorts, TheyLieBelowThoseOfConnections) {
  std::set<uint16_t> seen;
  for (int job = 0; job < 2000; ++job) {
    const auto port = first_port("slurm " + std::to_string(job), 64, {});
    ASSERT_TRUE(port);
    EXPECT_GE(*port, 10'000);
    EXPECT_LE(*port + 63, 31'999);
    seen.insert(*port);
  }
  EXPECT_GT(seen.size(), 1800u) << "jobs share their ports";
}

TEST(JobPorts, TheUserMayChoose) {
  EXPECT_EQ(*first_port("any", 3, 2500), 2500);
  EXPECT_EQ(*first_port("any", 1, 65'535), 65'535);
  const auto beyond = first_port("any", 2, 65'535);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ExitCode::kUsage);
  EXPECT_THAT(beyond.error().message, HasSubstr("need the ports up to 65536"));
  EXPECT_FALSE(first_port("any", 22'000, {}));
}

}  // namespace
}  // namespace dtrain::cluster
