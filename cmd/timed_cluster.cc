#include "timed_cluster.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "launch/free_ports.h"
#include "launch/local_host.h"
#include "launch/supervisor.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

constexpr size_t kStepsOfLine = 1000;  // what a launcher reads of one line is bounded

// The tasks' lines, each with the task's name in front, as gathered by the supervisor.
StepTimes read_times(const std::string& output) {
  StepTimes all;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto brace = line.find('{');
    const auto json = nlohmann::json::parse(brace == std::string::npos ? "" : line.substr(brace), nullptr, false);
    if (!json.is_object() || !json.contains("steps_ns")) continue;
    for (const auto& step : json["steps_ns"]) all.steps.push_back(step);
    all.batch = json.value("batch", all.batch);
    all.peak_rss_mib = std::max(all.peak_rss_mib, json.value("peak_rss_mb", int64_t{0}));
  }
  return all;
}

}  // namespace

void print_times(const StepTimes& times) {
  for (size_t first = 0; first == 0 || first < times.steps.size(); first += kStepsOfLine) {
    const size_t last = std::min(first + kStepsOfLine, times.steps.size());
    fmt::print("{}\n", nlohmann::json{{"batch", times.batch},
                                      {"peak_rss_mb", times.peak_rss_mib},
                                      {"steps_ns", std::vector(times.steps.begin() + static_cast<ptrdiff_t>(first),
                                                               times.steps.begin() + static_cast<ptrdiff_t>(last))}}
                           .dump());
  }
}

Result<StepTimes> time_cluster(const StepSetup& setup, const ClusterShape& shape) {
  const auto ps = static_cast<size_t>(shape.has_ps() ? shape.ps : 0), workers = static_cast<size_t>(shape.workers);
  launch::LocalHost host("", own_path(), launch::reserve_ports);
  launch::Preparation preparation;
  preparation.tasks.resize(ps + workers);
  for (size_t i = 0; i < ps + workers; ++i) preparation.tasks[i].id = static_cast<uint32_t>(i);
  host.prepare(preparation);
  if (!host.prepared()->problems.empty()) return fail(ExitCode::kUsage, host.prepared()->problems.front().text);
  const auto addresses = [&](size_t first, size_t count) {
    std::string all;
    for (size_t i = first; i < first + count; ++i)
      all += fmt::format("{}127.0.0.1:{}", all.empty() ? "" : ",", host.prepared()->ports[i]);
    return all;
  };
  std::vector<std::string> words{"benchmark", "step"};
  const std::vector<std::string> same = setup.words();
  words.insert(words.end(), same.begin(), same.end());
  words.insert(words.end(), {"--worker_hosts", addresses(ps, workers)});
  words.insert(words.end(), {"--servers", cluster::to_string(shape.placement)});
  if (ps > 0) words.insert(words.end(), {"--ps_hosts", addresses(0, ps)});

  std::vector<launch::SupervisedTask> tasks;
  for (size_t i = 0; i < ps + workers; ++i) {
    const char* const job = i < ps ? "ps" : "worker";
    const std::string index = std::to_string(i < ps ? i : i - ps);
    std::vector<std::string> own = words;
    own.insert(own.end(), {"--job_name", job, "--task_id", index});
    launch::SupervisedTask task;
    task.start = {static_cast<uint32_t>(i), fmt::format("{}/{}", job, index), own, {}, ""};
    task.host = &host;
    task.coordinator = i == 0;
    tasks.push_back(std::move(task));
  }

  char* text = nullptr;
  size_t size = 0;
  launch::TaskOutputOptions shown;
  shown.stream = open_memstream(&text, &size);
  launch::TaskOutput lines_of_tasks(shown);
  const ExitCode end = launch::Supervisor(std::move(tasks), {&host}, lines_of_tasks, {.begun = true}).run();
  std::fclose(shown.stream);
  const std::string output(text, size);
  std::free(text);
  if (end != ExitCode::kDone) return fail(end, output);
  StepTimes times = read_times(output);
  if (times.steps.empty()) return fail(ExitCode::kBug, "the benchmark's tasks ended without saying their times");
  return times;
}

}  // namespace dtrain::cmd
