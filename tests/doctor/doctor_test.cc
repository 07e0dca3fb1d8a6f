// Checks on machines that are made up of files.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "doctor/check.h"
#include "tests/temporary_directory.h"

namespace dtrain::doctor {
namespace {

using ::testing::HasSubstr;

class DoctorTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path at = root_.path() + path;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  std::vector<Finding> look(const Check& check) {
    Findings findings;
    findings.begin(check.name);
    check.look(here_, findings);
    return findings.all();
  }

  TemporaryDirectory root_;
  RealFileSystem files_;
  Surroundings here_{.files = files_, .root = root_.path()};
};

TEST_F(DoctorTest, LimitsOfVersionTwoAreTheTightestOfAllGroupsAbove) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("/sys/fs/cgroup/a/b/memory.max", "2147483648\n");
  write("/sys/fs/cgroup/a/memory.max", "1073741824\n");
  write("/sys/fs/cgroup/memory.max", "max\n");
  const ControlGroupLimits limits = control_group_limits(here_);
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory, 1u << 30);
}

TEST_F(DoctorTest, LimitsOfVersionOne) {
  write("/proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");  // which is none
  EXPECT_EQ(control_group_limits(here_).cores, 0.5);
  EXPECT_EQ(control_group_limits(here_).memory, std::nullopt);
  write("/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(control_group_limits(here_).cores, std::nullopt);
}

TEST_F(DoctorTest, NoControlGroupsNoLimits) {
  EXPECT_EQ(control_group_limits(here_).cores, std::nullopt);
  EXPECT_EQ(control_group_limits(here_).memory, std::nullopt);
}

TEST_F(DoctorTest, AQuotaBelowTheCoresIsSlow) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  const auto findings = look(kCores);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].verdict, Verdict::kSlow);
  EXPECT_THAT(findings[0].says, HasSubstr("gives the time of 0.5"));
  EXPECT_THAT(findings[0].todo, HasSubstr("train.threads = 1,"));
}

TEST_F(DoctorTest, AProcessorWithoutAvx2IsSlow) {
  write("/proc/cpuinfo", "processor : 0\nmodel name\t: Made Up 1\nflags\t\t: fpu sse4_1 sse4_2 avx\n");
  auto findings = look(kProcessor);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kSlow);
  EXPECT_THAT(findings[0].says, HasSubstr("Made Up 1: sse4_1 sse4_2 avx;"));
  write("/proc/cpuinfo", "model name\t: Made Up 2\nflags\t\t: sse4_2 avx2 fma avx512f\n");
  findings = look(kProcessor);
  EXPECT_EQ(findings[0].verdict, Verdict::kOk);
  EXPECT_THAT(findings[0].says, HasSubstr("sums and optimizers AVX-512"));
}

TEST_F(DoctorTest, MemoryIsThatOfTheControlGroup) {
  write("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  EXPECT_THAT(look(kMemory)[0].says, HasSubstr("16.0 GiB, 8.0 GiB of it free"));
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_THAT(look(kMemory)[0].says, HasSubstr("the control group allows 2.0 GiB"));
}

TEST_F(DoctorTest, GpusAreCountedAndNotUsed) {
  EXPECT_EQ(look(kDevices)[0].verdict, Verdict::kOk);
  for (const char* name : {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}) write(name, "");
  write("/proc/driver/nvidia/version", "NVRM version: made up\nGCC version: 12\n");
  const auto findings = look(kDevices);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kNote);
  EXPECT_THAT(findings[0].says, HasSubstr("2 NVIDIA GPUs (NVRM version: made up)"));
}

TEST_F(DoctorTest, VariablesThatChangeARunAreNamed) {
  EXPECT_EQ(look(kVariables)[0].verdict, Verdict::kOk);
  here_.environment = {{"OMP_WAIT_POLICY", "active"}, {"DTRAIN_OUT", "x"}, {"HOME", "/root"}, {"ONEDNN_VERBOSE", ""}};
  const auto findings = look(kVariables);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].verdict, Verdict::kSlow);
  EXPECT_THAT(findings[0].says, HasSubstr("OMP_WAIT_POLICY=active"));
  EXPECT_EQ(findings[1].verdict, Verdict::kNote);
  EXPECT_THAT(findings[1].says, HasSubstr("DTRAIN_OUT=x"));
}

TEST_F(DoctorTest, ProgramsAreLookedForInThePath) {
  here_.environment = {{"PATH", root_.path()}};
  for (const Finding& f : look(kPrograms)) EXPECT_EQ(f.verdict, Verdict::kNote);
  write("/ssh", "");
  std::filesystem::permissions(root_.path() + "/ssh", std::filesystem::perms::owner_all);
  EXPECT_EQ(look(kPrograms)[0].says, root_.path() + "/ssh");
}

TEST_F(DoctorTest, HostsOfAClusterThatCannotBe) {
  here_.cluster = cluster::parse_host_lists("127.0.0.1:2500", "192.0.2.1:2500,no-such-host.invalid:2500");
  here_.resolve_hosts();
  const auto findings = look(kCluster);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].verdict, Verdict::kOk);
  EXPECT_EQ(findings[1].verdict, Verdict::kFails);
  EXPECT_THAT(findings[1].says, HasSubstr("/job:ps/task:0 is at 127.0.0.1"));
  EXPECT_EQ(findings[2].verdict, Verdict::kFails);
  EXPECT_THAT(findings[2].says, HasSubstr("no-such-host.invalid"));
}

TEST_F(DoctorTest, ARunCannotStartWhereSomethingFails) {
  Findings findings;
  findings.begin("one");
  findings.ok("fine");
  findings.slow("slow", "hurry");
  EXPECT_TRUE(findings.can_start());
  findings.fails("bad", "mend it");
  EXPECT_FALSE(findings.can_start());
  EXPECT_EQ(findings.all()[2].check, "one");
}

}  // namespace
}  // namespace dtrain::doctor
