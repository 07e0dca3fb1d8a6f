#include "cluster/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/philox.h"
#include "config/load.h"
#include "config/parse.h"

namespace dtrain::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ClusterSpec> from_toml(const std::string& text) {
  Result<config::Value> root = config::parse_toml(text, "c.toml");
  if (!root) return tl::unexpected<Error>(root.error());
  return read_cluster_spec(*root);
}

template <typename T>
std::string message_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, ExitCode::kUsage);
  return result.error().message;
}

std::vector<std::string> names(const std::vector<Task>& tasks) {
  std::vector<std::string> out;
  for (const Task& t : tasks) out.push_back(to_string(t));
  return out;
}

const std::string kOffice =
    "name = \"office\"\n\n[jobs.worker]\ntasks = [\"192.168.170.193:2500\", \"192.168.170.194:2500\"]\n"
    "devices = [\"gpu:0\", \"cpu\"]\n\n[jobs.ps]\ntasks = [\"192.168.170.226:2500\"]\n";

TEST(ClusterSpec, FromAFile) {
  const ClusterSpec spec = from_toml(kOffice).value();
  EXPECT_EQ(spec.name(), "office");
  ASSERT_EQ(spec.jobs().size(), 2u);
  EXPECT_EQ(spec.jobs()[0].name, "worker");
  EXPECT_EQ(spec.jobs()[0].role, Role::kWorker);
  EXPECT_EQ(spec.jobs()[1].role, Role::kPs);
  EXPECT_THAT(spec.jobs()[0].devices, ElementsAre("gpu:0", "cpu"));
  EXPECT_THAT(spec.jobs()[1].devices, ElementsAre("cpu"));
  EXPECT_EQ(to_string(spec.address_of({"worker", 1})), "192.168.170.194:2500");
  EXPECT_EQ(spec.device_of({"worker", 0}), "gpu:0");
}

TEST(ClusterSpec, RanksPutServersFirst) {
  const ClusterSpec spec = from_toml(kOffice).value();
  EXPECT_EQ(spec.size(), 3);
  EXPECT_THAT(names(spec.tasks()), ElementsAre("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_THAT(names(spec.servers()), ElementsAre("/job:ps/task:0"));
  EXPECT_THAT(names(spec.workers()), ElementsAre("/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_EQ(to_string(spec.coordinator()), "/job:ps/task:0");
  for (int rank = 0; rank < spec.size(); ++rank) EXPECT_EQ(spec.rank_of(spec.task_of(rank)), rank);
  EXPECT_EQ(spec.role_of(spec.task_of(0)), Role::kPs);
  EXPECT_TRUE(spec.has_ps());
}

TEST(ClusterSpec, WithoutPsTheServersStandBesideTheWorkers) {
  const ClusterSpec spec = parse_cluster_spec("worker|a:1;b:1").value();
  EXPECT_FALSE(spec.has_ps());
  EXPECT_THAT(names(spec.servers()), ElementsAre("/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_THAT(names(spec.workers()), ElementsAre("/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_EQ(to_string(spec.coordinator()), "/job:worker/task:0");
}

TEST(ClusterSpec, OtherJobsSayTheirRole) {
  const ClusterSpec spec = from_toml(
                               "[jobs.fast]\nrole = \"worker\"\ndevices = \"gpu:1\"\ntasks = [\"a:1\", \"b:1\"]\n"
                               "[jobs.store]\nrole = \"ps\"\ntasks = [\"c:1\"]\n[jobs.worker]\ntasks = [\"d:1\"]\n")
                               .value();
  EXPECT_THAT(names(spec.tasks()),
              ElementsAre("/job:store/task:0", "/job:fast/task:0", "/job:fast/task:1", "/job:worker/task:0"));
  EXPECT_THAT(spec.jobs()[0].devices, ElementsAre("gpu:1", "gpu:1"));
}

TEST(ClusterSpec, LocalIsOneWorker) {
  const ClusterSpec spec = ClusterSpec::local();
  EXPECT_THAT(names(spec.tasks()), ElementsAre("/job:worker/task:0"));
  EXPECT_THAT(names(spec.servers()), ElementsAre("/job:worker/task:0"));
}

TEST(ClusterSpec, FromFlags) {
  const std::string text = "worker|192.168.170.193:2500;[fe80::1]:2500,ps|ps-1.example.org:65535";
  const ClusterSpec spec = parse_cluster_spec(text).value();
  EXPECT_EQ(to_string(spec), text);
  EXPECT_EQ(spec.address_of({"worker", 1}).host, "fe80::1");
  EXPECT_EQ(spec.coordinator(), (Task{"ps", 0}));
  EXPECT_EQ(to_string(parse_cluster_spec(" worker | a:1 ; b:1 , ps | c:1 ").value()), "worker|a:1;b:1,ps|c:1");
  EXPECT_EQ(to_string(parse_host_lists("a:1,b:1", "c:1").value()), "ps|a:1;b:1,worker|c:1");
  EXPECT_EQ(to_string(parse_host_lists("", "c:1").value()), "worker|c:1");
}

TEST(ClusterSpec, LookingUpATask) {
  const ClusterSpec spec = from_toml(kOffice).value();
  EXPECT_EQ(spec.find("worker", 1).value(), (Task{"worker", 1}));
  EXPECT_EQ(message_of(spec.find("worker", 7)), "this cluster has no task /job:worker/task:7; it has worker 0-1, ps 0");
  EXPECT_EQ(message_of(spec.find("workr", 0)),
            "this cluster has no task /job:workr/task:0 (did you mean 'worker'?); it has worker 0-1, ps 0");
  EXPECT_EQ(message_of(spec.find("ps", -1)), "this cluster has no task /job:ps/task:-1; it has worker 0-1, ps 0");
  EXPECT_EQ(message_of(spec.find("evaluator", 0)),
            "this cluster has no task /job:evaluator/task:0; it has worker 0-1, ps 0");
}

TEST(ClusterSpec, Addresses) {
  for (const char* good :
       {"a:1", "127.0.0.1:65535", "host-1.example.org:80", "[::]:1", "[::1]:1", "[1:2:3:4:5:6:7:8]:1",
        "[fe80::1%eth0]:1", "[::ffff:10.0.0.1]:1", "[1::8]:1", "[1:2:3:4:5:6:7::]:1", "3com.com:1"}) {
    Result<TaskAddress> address = parse_address(good);
    ASSERT_TRUE(address) << address.error().message;
    EXPECT_EQ(to_string(*address), good);
  }
  for (const char* bad : {"",
                          "a",
                          ":1",
                          "a:",
                          "a:0",
                          "a:65536",
                          "a:-1",
                          "a:+1",
                          "a:1x",
                          "a: 1",
                          "a b:1",
                          "256.0.0.1:1",
                          "1.2.3:1",
                          "1.2.3.4.5:1",
                          "1..2.3:1",
                          "a..b:1",
                          "::1:80",
                          "fe80::1",
                          "[::1]",
                          "[::1",
                          "[::1]1",
                          "[::1]:",
                          "[:::]:1",
                          "[1::2::3]:1",
                          "[12345::]:1",
                          "[g::]:1",
                          "[1:2:3:4:5:6:7]:1",
                          "[]:1",
                          "[:1:2:3:4:5:6:7]:1",
                          "[1:2:3:4:5:6:7:8:9]:1",
                          "[1:]:1",
                          "[::1%]:1",
                          "http://a:1",
                          "-a:1"}) {
    EXPECT_THAT(message_of(parse_address(bad)), HasSubstr("is no address")) << bad;
  }
  EXPECT_EQ(message_of(parse_address("a:70000")),
            "'a:70000' is no address: the port must be a number from 1 to 65535; expected host:port, such as "
            "10.0.0.1:2500 or [::1]:2500");
}

TEST(ClusterSpec, MistakesInAFileComeTogether) {
  EXPECT_EQ(
      message_of(from_toml("nam = \"x\"\n"
                           "[jobs.worker]\n"
                           "tasks = [\"a:1\", \"a\", \"A:1\", 3]\n"
                           "device = \"cpu\"\n"
                           "[jobs.ps]\n"
                           "role = \"worker\"\n"
                           "tasks = []\n"
                           "[jobs.wrker]\n"
                           "tasks = [\"b:1\", \"c:1\", \"d:1\"]\n"
                           "devices = [\"cpu\", \"tpu\"]\n"
                           "[jobs.store]\n"
                           "role = \"pss\"\n"
                           "tasks = [\"a:1\"]\n")),
      "c.toml:1:1: error: unknown key 'nam' in the cluster file (did you mean 'name'?)\n"
      "c.toml:3:17: error: /job:worker/task:1: 'a' is no address: the port is missing; expected host:port, such as "
      "10.0.0.1:2500 or [::1]:2500\n"
      "c.toml:3:22: error: /job:worker/task:2 has the address of /job:worker/task:0: A:1\n"
      "c.toml:3:29: error: 'tasks': expected \"host:port\", got the integer 3\n"
      "c.toml:4:1: error: unknown key 'device' in job 'worker' (did you mean 'devices'?)\n"
      "c.toml:6:8: error: a job named 'ps' always has that role\n"
      "c.toml:7:9: error: job 'ps' has no tasks\n"
      "c.toml:8:7: error: job 'wrker' needs role = \"worker\" or \"ps\" (did you mean 'worker'?)\n"
      "c.toml:10:11: error: job 'wrker': unknown device 'tpu' (cpu, gpu:0, gpu:1 …)\n"
      "c.toml:10:11: error: job 'wrker' has 3 tasks but 2 devices; give one for all, or one a task\n"
      "c.toml:12:8: error: 'role' in job 'store': unknown value 'pss' (did you mean 'ps'?)\n"
      "c.toml:13:10: error: /job:store/task:0 has the address of /job:worker/task:0: a:1");
}

TEST(ClusterSpec, AClusterNeedsAWorker) {
  const std::string message = "the cluster has no worker: at least one task must compute gradients";
  EXPECT_EQ(message_of(from_toml("[jobs.ps]\ntasks = [\"a:1\"]\n")), "c.toml:1:1: error: " + message);
  EXPECT_EQ(message_of(from_toml("[jobs]\n")), "c.toml:1:1: error: " + message);
  EXPECT_EQ(message_of(parse_cluster_spec("ps|a:1")), "--cluster_spec: error: " + message);
  EXPECT_EQ(message_of(parse_host_lists("a:1", "")), "--worker_hosts: error: " + message);
  EXPECT_EQ(message_of(from_toml("")), "c.toml:1:1: error: the cluster file needs 'jobs'");
}

TEST(ClusterSpec, MistakesInFlags) {
  EXPECT_EQ(message_of(parse_cluster_spec("workr|a:1,ps|a:1;a:1")),
            "--cluster_spec: error: unknown job 'workr' (did you mean 'worker'?); other names need a cluster file\n"
            "--cluster_spec: error: /job:ps/task:1 has the address of /job:ps/task:0: a:1");
  EXPECT_EQ(message_of(parse_cluster_spec("worker")),
            "--cluster_spec: error: 'worker': expected jobs such as worker|host:port;host:port,ps|host:port");
  EXPECT_EQ(message_of(parse_cluster_spec("worker|a:1,worker|b:1")),
            "--cluster_spec: error: job 'worker' is there twice");
  EXPECT_THAT(message_of(parse_cluster_spec("worker|a:1;")), HasSubstr("/job:worker/task:1: '' is no address"));
  EXPECT_THAT(message_of(parse_cluster_spec("")), HasSubstr("expected jobs such as"));
  EXPECT_THAT(message_of(parse_host_lists("x", "a:1")), HasSubstr("--ps_hosts: error: /job:ps/task:0: 'x'"));
}

std::string bools(const ClusterSpec& spec, bool (ClusterSpec::*what)(const Task&) const) {
  std::string out;
  for (const Task& task : spec.tasks()) out += (spec.*what)(task) ? '1' : '0';
  return out;
}

TEST(ClusterSpec, ServersOnAllTasks) {
  const std::string toml =
      "servers = \"all\"\n[jobs.worker]\ntasks = [\"a:1\", \"b:1\"]\n[jobs.ps]\ntasks = [\"c:1\"]\n";
  const ClusterSpec spec = from_toml(toml).value();
  EXPECT_EQ(spec.placement(), Placement::kAll);
  EXPECT_THAT(names(spec.servers()), ElementsAre("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_THAT(names(spec.workers()), ElementsAre("/job:worker/task:0", "/job:worker/task:1"));
  EXPECT_EQ(bools(spec, &ClusterSpec::serves), "111");
  EXPECT_EQ(to_string(spec.coordinator()), "/job:ps/task:0");
  const ClusterSpec flags = parse_cluster_spec("worker|a:1;b:1,ps|c:1", {.servers = "all"}).value();
  EXPECT_EQ(identity(flags), identity(spec));
  EXPECT_NE(identity(flags), identity(parse_cluster_spec("worker|a:1;b:1,ps|c:1").value()));
  EXPECT_EQ(parse_host_lists("", "a:1", {.servers = "all"}).value().placement(), Placement::kWorkers);
  EXPECT_EQ(parse_host_lists("c:1", "a:1", {.servers = "ps"}).value().placement(), Placement::kPs);
}

TEST(ClusterSpec, PlacementsThatCannotBe) {
  EXPECT_EQ(message_of(from_toml("servers = \"al\"\n[jobs.worker]\ntasks = [\"a:1\"]\n")),
            "c.toml:1:11: error: servers: unknown value 'al' (did you mean 'all'?)");
  EXPECT_EQ(message_of(parse_host_lists("", "a:1", {.servers = "ps"})),
            "--servers: error: servers: the parameters shall lie on ps tasks, but the cluster has none");
  EXPECT_THAT(message_of(parse_host_lists("b:1", "a:1", {.servers = "workers"})), HasSubstr("leave these out"));
}

TEST(ClusterSpec, WorkersThatMayJoin) {
  const ClusterSpec spec = from_toml(
                               "[jobs.worker]\ntasks = [\"a:1\"]\nmax_tasks = 3\nmin_tasks = 2\ndevices = \"gpu:0\"\n"
                               "[jobs.extra]\nrole = \"worker\"\ntasks = [\"b:1\"]\n[jobs.ps]\ntasks = [\"c:1\"]\n")
                               .value();
  EXPECT_THAT(names(spec.tasks()), ElementsAre("/job:ps/task:0", "/job:worker/task:0", "/job:extra/task:0",
                                               "/job:worker/task:1", "/job:worker/task:2"));
  EXPECT_EQ(bools(spec, &ClusterSpec::listed), "11100");
  EXPECT_EQ(bools(spec, &ClusterSpec::serves), "10000");
  EXPECT_TRUE(spec.elastic());
  EXPECT_EQ(spec.workers().size(), 4u);
  EXPECT_EQ(spec.min_workers(), 3) << "and the one of the other job";
  EXPECT_EQ(spec.start_grace(), 10);
  EXPECT_EQ(spec.find("worker", 2).value(), (Task{"worker", 2}));
  EXPECT_THAT(message_of(spec.find("worker", 3)), HasSubstr("it has worker 0-2, extra 0, ps 0"));
  EXPECT_EQ(spec.address_of({"worker", 2}), TaskAddress{});
  EXPECT_EQ(spec.device_of({"worker", 2}), "cpu");
  for (int rank = 0; rank < spec.size(); ++rank) EXPECT_EQ(spec.rank_of(spec.task_of(rank)), rank);

  const SpecOptions options{.servers = "", .max_workers = 3, .min_workers = 1, .start_grace = 2.5};
  const ClusterSpec flags = parse_cluster_spec("worker|a:1;b:1,ps|c:1", options).value();
  EXPECT_EQ(bools(flags, &ClusterSpec::listed), "1110");
  EXPECT_EQ(flags.start_grace(), 2.5);
  EXPECT_FALSE(parse_cluster_spec("worker|a:1").value().elastic());
  EXPECT_FALSE(parse_cluster_spec("worker|a:1").value().min_workers());
}

TEST(ClusterSpec, NoWorkerNeedsToBeListedWherePsTasksHoldTheParameters) {
  const ClusterSpec file = from_toml("[jobs.worker]\nmax_tasks = 2\n[jobs.ps]\ntasks = [\"c:1\"]\n").value();
  const ClusterSpec text = parse_cluster_spec("ps|c:1", {.max_workers = 2}).value();
  const ClusterSpec lists = parse_host_lists("c:1", "", {.max_workers = 2}).value();
  for (const ClusterSpec& spec : {file, text, lists}) {
    EXPECT_THAT(names(spec.tasks()), ElementsAre("/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"));
    EXPECT_EQ(bools(spec, &ClusterSpec::listed), "100");
    EXPECT_EQ(to_string(spec), "ps|c:1");
    EXPECT_EQ(identity(spec), identity(file));
  }
  EXPECT_THAT(message_of(from_toml("[jobs.worker]\nmax_tasks = 2\n")), HasSubstr("list at least one worker"));
}

TEST(ClusterSpec, NumbersOfWorkersThatCannotBe) {
  EXPECT_EQ(message_of(from_toml("[jobs.worker]\ntasks = [\"a:1\", \"b:1\"]\nmax_tasks = 1\nmin_tasks = 3\n"
                                 "[jobs.ps]\ntasks = [\"c:1\"]\nmin_tasks = 1\n")),
            "c.toml:1:7: error: job 'worker' lists 2 tasks, but at most 1 may be there\n"
            "c.toml:1:7: error: job 'worker' needs 3 tasks, but no more than 2 can be there\n"
            "c.toml:7:13: error: 'min_tasks' is for workers: the tasks of job 'ps' hold parameters, all are needed");
  EXPECT_THAT(message_of(parse_cluster_spec("worker|a:1;b:1", {.min_workers = 1})),
              HasSubstr("job 'worker' cannot do with 1 of its 2 tasks"));
  EXPECT_THAT(message_of(parse_cluster_spec("worker|a:1,ps|b:1", {.max_workers = 65'536})),
              HasSubstr("more than 65536"));
  EXPECT_THAT(message_of(from_toml("[jobs.worker]\ntasks = [\"a:1\"]\nmax_tasks = 0\n")), HasSubstr("max_tasks"));
}

TEST(ClusterSpec, WrongBytesNeverCrash) {
  const uint64_t seed = 7;
  const std::string flag = "worker|192.168.170.193:2500;[fe80::1%e]:2500,ps|[::ffff:1.2.3.4]:1";
  int good = 0;
  for (uint32_t round = 0; round < 4000; ++round) {
    const Philox random(seed, stream_id("bytes"), round, 0);
    for (std::string text : {flag, kOffice}) {
      for (uint32_t c = 0; c <= random.at(0) % 3; ++c) {
        const size_t at = random.at(1 + 2 * c) % text.size();
        if (random.at(0) % 2)
          text[at] = "[]|;,:%.=\"\n\\x0 {}"[random.at(2 + 2 * c) % 17];
        else
          text.erase(at, 1 + random.at(2 + 2 * c) % 9);
      }
      SCOPED_TRACE("seed 7, round " + std::to_string(round));
      Result<ClusterSpec> spec = text.starts_with("name") ? from_toml(text) : parse_cluster_spec(text);
      if (spec) {
        ++good;
        EXPECT_GE(spec->workers().size(), 1u);
      }
    }
  }
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace dtrain::cluster
