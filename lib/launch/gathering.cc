#include "launch/gathering.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>

#include "launch/local_host.h"
#include "launch/remote_host.h"

namespace dtrain::launch {
namespace {

constexpr int kSshFailed = 255;

// What others say, for a terminal: one line, without characters that control it.
std::string one_line(const std::string& words) {
  std::string out = words;
  constexpr size_t kLongest = 2000;
  if (out.size() > kLongest) out = out.substr(0, kLongest) + "…";
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' ? ' ' : '?';
  return out;
}

// What a host calls a problem has a code of the table, and none that says that all went well.
ExitCode code_of(uint32_t code) {
  for (const ExitCode known : {ExitCode::kUsage, ExitCode::kData, ExitCode::kPeerLost, ExitCode::kCheckpoint,
                               ExitCode::kAuthentication, ExitCode::kNotFinite})
    if (code == static_cast<uint32_t>(known)) return known;
  return ExitCode::kBug;
}

void take_answer(GatheredHost& gathered, const Preparation& question, double patience) {
  if (!gathered.problems.empty() || !gathered.host) return;
  const auto problem = [&](ExitCode code, std::string text) {
    gathered.problems.push_back({static_cast<uint32_t>(code), std::move(text)});
  };
  const std::optional<Prepared>& answer = gathered.host->prepared();
  if (!answer)
    return problem(ExitCode::kPeerLost,
                   gathered.host->lost()
                       ? "the connection ended while it looked whether its tasks can run"
                       : fmt::format("it did not say within {:g} s whether its tasks can run", patience));
  for (const std::string& warning : answer->warnings) gathered.warnings.push_back(one_line(warning));
  for (const Problem& said : answer->problems) problem(code_of(said.code), one_line(said.text));
  if (!gathered.problems.empty()) return;
  bool fits = answer->ports.size() == question.tasks.size();
  for (size_t n = 0; fits && n < question.tasks.size(); ++n) {
    const uint32_t port = answer->ports[n], wanted = question.tasks[n].port;
    fits = port >= 1 && port <= 65535 && (wanted == 0 || wanted == port);
  }
  if (!fits) problem(ExitCode::kBug, "it answered with ports that are not those of its tasks");
}

class Gathering {
 public:
  Gathering(const std::vector<WantedHost>& wanted, const GatherOptions& options, HostEvents& events, const Clock& clock)
      : wanted_(wanted), options_(options), events_(events), clock_(clock), hosts_(wanted.size()) {
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (!wanted_[i].here) remote_.push_back(i);
  }

  std::vector<GatheredHost> run() {
    for (size_t i : remote_) connect(i);
    wait_for([](const RemoteHost& host) { return host.greeting().has_value(); });
    if (options_.sync) bring_program();
    for (size_t i : remote_) check_connection(i);
    if (options_.sync) copy_files();
    prepare();
    return std::move(hosts_);
  }

 private:
  RemoteHost* remote(size_t i) { return static_cast<RemoteHost*>(hosts_[i].host.get()); }
  bool good(size_t i) const { return hosts_[i].problems.empty() && hosts_[i].host; }
  void problem(size_t i, ExitCode code, std::string text) {
    hosts_[i].problems.push_back({static_cast<uint32_t>(code), std::move(text)});
  }

  void connect(size_t i) {
    std::vector<std::string> places;
    if (!options_.remote_program.empty())
      places = {options_.remote_program};
    else
      places = {options_.store, options_.program};
    auto host = RemoteHost::connect(wanted_[i].name,
                                    ssh_command(options_.ssh, wanted_[i].target, agent_command(places)), clock_);
    if (host)
      hosts_[i].host = std::move(*host);
    else
      problem(i, host.error().code, host.error().message);
  }

  void serve() {
    for (size_t i : remote_)
      if (good(i)) remote(i)->work(events_);
  }

  // Until all of them are what is asked, or lost, or the time is over.
  void wait_for(const std::function<bool(const RemoteHost&)>& done) {
    const Instant deadline = clock_.now() + static_cast<Nanoseconds>(options_.patience * kSecond);
    const auto open = [&](size_t i) { return good(i) && !remote(i)->lost() && !done(*remote(i)); };
    while (clock_.now() < deadline && std::any_of(remote_.begin(), remote_.end(), open)) {
      std::vector<pollfd> wait;
      for (size_t i : remote_)
        if (good(i)) remote(i)->descriptors(wait);
      poll(wait.data(), wait.size(), 50);
      serve();
    }
  }

  // None that starts, or one that says that it is another, or does not know what an agent is.
  bool lacks_program(size_t i) {
    if (!good(i)) return false;
    const RemoteHost& host = *remote(i);
    if (host.greeting()) return host.greeting()->version != options_.version;
    return host.lost() && host.end() && !host.end()->is(static_cast<ExitCode>(kSshFailed));
  }

  // Connections are served meanwhile: an agent that hears nothing takes its launcher for dead.
  std::vector<PipelineEnd> copy(const std::vector<Pipeline>& pipelines) {
    return run_pipelines(pipelines, options_.copy_patience, [this] { serve(); });
  }

  void bring_program() {
    std::vector<size_t> to;
    std::vector<Pipeline> copies;
    for (size_t i : remote_) {
      if (!lacks_program(i)) continue;
      to.push_back(i);
      copies.push_back(program_copy(options_.ssh, wanted_[i].target, options_.program, options_.store));
    }
    if (to.empty()) return;
    const std::vector<PipelineEnd> ends = copy(copies);
    for (size_t n = 0; n < to.size(); ++n) {
      if (ends[n].good)
        connect(to[n]);
      else
        problem(to[n], ExitCode::kUsage, fmt::format("dtrain cannot be copied there: {}", one_line(ends[n].why())));
    }
    wait_for([](const RemoteHost& host) { return host.greeting().has_value(); });
  }

  void check_connection(size_t i) {
    if (!good(i)) return;
    const RemoteHost& host = *remote(i);
    if (host.greeting() && !host.lost()) {
      if (host.greeting()->version != options_.version)
        problem(i, ExitCode::kUsage,
                fmt::format("dtrain there is {}, here it is {}: install the same one, or let --sync bring this one",
                            one_line(host.greeting()->version), options_.version));
      return;
    }
    if (!host.lost() || !host.end())
      return problem(i, ExitCode::kPeerLost,
                     fmt::format("no answer within {:g} s: does a login there wait for something?", options_.patience));
    const std::string said = one_line(host.last_words());
    if (host.end()->is(static_cast<ExitCode>(kNoProgram)))
      return problem(i, ExitCode::kUsage,
                     fmt::format("there is no dtrain{}: install the package there, let --sync bring this one, or "
                                 "name its path by --remote_dtrain{}",
                                 options_.remote_program.empty() ? " in the PATH" : " at " + options_.remote_program,
                                 said.empty() ? "" : " (" + said + ")"));
    const std::string words = !said.empty() ? said
                              : host.end()->is(static_cast<ExitCode>(kSshFailed))
                                  ? "ssh ended without a word; dtrain may have crashed there: does it run by hand?"
                                  : to_string(*host.end());
    if (!host.end()->is(static_cast<ExitCode>(kSshFailed)))
      return problem(i, ExitCode::kUsage,
                     fmt::format("dtrain there does not start ({}): {}; does it run there by hand? (--sync does not "
                                 "bring the libraries)",
                                 to_string(*host.end()), words));
    const std::string hint = ssh_hint(words, wanted_[i].target.host);
    problem(i, ExitCode::kPeerLost, fmt::format("not reached: {}{}{}", words, hint.empty() ? "" : "; ", hint));
  }

  // By rsync where both sides have it, else, or where that fails, by tar.
  void copy_files() {
    std::vector<bool> copied(wanted_.size());
    for (const bool by_rsync : {true, false}) {
      std::vector<size_t> to;
      std::vector<Pipeline> copies;
      for (size_t i : remote_) {
        if (!good(i) || copied[i] || (by_rsync && !remote(i)->greeting()->rsync)) continue;
        for (const CopyJob& job : options_.copies) {
          to.push_back(i);
          copies.push_back((by_rsync ? rsync_copy : tar_copy)(options_.ssh, wanted_[i].target, job));
        }
      }
      const std::vector<PipelineEnd> ends = copy(copies);
      for (size_t i : to) copied[i] = true;
      for (size_t n = 0; n < to.size(); ++n) {
        if (ends[n].good) continue;
        copied[to[n]] = false;
        if (!by_rsync)
          problem(to[n], ExitCode::kUsage,
                  fmt::format("the run's files cannot be copied there: {}", one_line(ends[n].why())));
      }
    }
  }

  void prepare() {
    const bool alone = std::all_of(remote_.begin(), remote_.end(), [&](size_t i) {
      return !good(i) || remote(i)->greeting()->machine == options_.machine;
    });
    const auto question = [&](size_t i) {
      Preparation what = wanted_[i].preparation;
      what.alone = hosts_[i].alone = alone;
      return what;
    };
    for (size_t i : remote_)
      if (good(i)) remote(i)->prepare(question(i));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i].here) continue;
      hosts_[i].host = std::make_unique<LocalHost>(wanted_[i].name, options_.program, options_.prepare_here);
      // On a thread of its own, since it may take its time, and the others must hear of their launcher.
      auto looked = std::async(std::launch::async, [&, i] { hosts_[i].host->prepare(question(i)); });
      while (looked.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) serve();
    }
    wait_for([](const RemoteHost& host) { return host.prepared().has_value(); });
    for (size_t i = 0; i < wanted_.size(); ++i) take_answer(hosts_[i], wanted_[i].preparation, options_.patience);
  }

  const std::vector<WantedHost>& wanted_;
  const GatherOptions& options_;
  HostEvents& events_;
  const Clock& clock_;
  std::vector<GatheredHost> hosts_;
  std::vector<size_t> remote_;
};

// Notes are of no interest here: they were shown while all looked.
class Silence final : public HostEvents {
  void on_line(uint32_t, const std::string&, bool) override {}
  void on_ready(uint32_t) override {}
  void on_end(uint32_t, const TaskEnd&) override {}
  void on_note(const std::string&, const std::string&) override {}
};

}  // namespace

void ask_again(GatheredHost& host, const Preparation& what, double patience) {
  const SteadyClock clock;
  Silence silence;
  host.problems.clear();
  host.host->prepare(what);
  const Instant deadline = clock.now() + static_cast<Nanoseconds>(patience * kSecond);
  while (!host.host->prepared() && !host.host->lost() && clock.now() < deadline) {
    std::vector<pollfd> wait;
    host.host->descriptors(wait);
    poll(wait.data(), wait.size(), 50);
    host.host->work(silence);
  }
  take_answer(host, what, patience);
}

std::vector<GatheredHost> gather(const std::vector<WantedHost>& wanted, const GatherOptions& options,
                                 HostEvents& events, const Clock& clock) {
  return Gathering(wanted, options, events, clock).run();
}

}  // namespace dtrain::launch
