#include "launch/programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "launch/signal_watch.h"

namespace dtrain::launch {
namespace {

constexpr size_t kMostOutput = 1u << 20;

struct Running {
  std::vector<Child> children;
  std::string output;
  std::string failure;  // it could not be started, or took too long
};

void start(const Pipeline& pipeline, Running& running) {
  int from_before = -1;
  const auto close_it = [&] {
    if (from_before >= 0) close(std::exchange(from_before, -1));
  };
  if (!pipeline.input_file.empty()) {
    from_before = open(pipeline.input_file.c_str(), O_RDONLY | O_CLOEXEC);
    if (from_before < 0) running.failure = fmt::format("{}: {}", pipeline.input_file, std::strerror(errno));
  }
  for (size_t i = 0; i < pipeline.programs.size() && running.failure.empty(); ++i) {
    ChildStart how{.label = pipeline.programs[i].front(), .argv = pipeline.programs[i]};
    if (i == 0) how.input = pipeline.input;
    how.input_fd = from_before;
    int ends[2] = {-1, -1};
    if (i + 1 < pipeline.programs.size() && pipe2(ends, O_CLOEXEC) != 0) {
      running.failure = std::strerror(errno);
      break;
    }
    how.output_fd = ends[1];
    auto child = Child::start(how);
    close_it();
    if (ends[1] >= 0) close(ends[1]);
    from_before = ends[0];
    if (child)
      running.children.push_back(std::move(*child));
    else
      running.failure = child.error().message;
  }
  close_it();
}

}  // namespace

std::string PipelineEnd::why() const { return output.empty() ? to_string(end) : output; }

std::vector<PipelineEnd> run_pipelines(const std::vector<Pipeline>& pipelines, double seconds,
                                       const std::function<void()>& serve) {
  const SteadyClock clock;
  const Instant deadline = clock.now() + static_cast<Nanoseconds>(seconds * kSecond);
  // A signal that ends this process ends them first, with all that they have started.
  std::optional<SignalWatch> signals(std::in_place);
  std::vector<Running> all(pipelines.size());
  for (size_t i = 0; i < pipelines.size(); ++i) start(pipelines[i], all[i]);
  const auto is_running = [](const Running& r) {
    return std::any_of(r.children.begin(), r.children.end(), [](const Child& c) { return c.running(); });
  };
  while (std::any_of(all.begin(), all.end(), is_running)) {
    std::vector<pollfd> wait;
    for (Running& running : all) {
      const auto keep = [&](const std::string& line, bool) {
        if (running.output.size() < kMostOutput) running.output += line + "\n";
      };
      for (Child& child : running.children) {
        child.read_output(keep);
        if (child.reap()) child.read_output(keep);
        if (child.output_fd() >= 0 && child.running()) wait.push_back({child.output_fd(), POLLIN, 0});
        if (child.running() && !running.failure.empty()) child.signal_group(SIGKILL);
      }
      if (is_running(running) && running.failure.empty() && clock.now() > deadline)
        running.failure = fmt::format("not done within {:g} s", seconds);
    }
    wait.push_back({signals->fd(), POLLIN, 0});
    poll(wait.data(), wait.size(), 50);
    if (const int number = signals->next()) {
      for (Running& running : all)
        for (Child& child : running.children) child.signal_group(SIGKILL);
      signals.reset();
      raise(number);
      signals.emplace();  // it is one that this process lives on after
    }
    if (serve) serve();
  }
  std::vector<PipelineEnd> ends;
  for (Running& running : all) {
    PipelineEnd end;
    end.good = running.failure.empty();
    while (running.output.ends_with('\n')) running.output.pop_back();
    end.output = running.failure.empty() ? running.output : running.failure;
    for (const Child& child : running.children) {
      if (child.end().good() || !end.good) continue;
      end.good = false;
      end.end = child.end();
    }
    ends.push_back(std::move(end));
  }
  return ends;
}

}  // namespace dtrain::launch
