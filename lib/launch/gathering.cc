#include "launch/gathering.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "launch/local_host.h"
#include "launch/remote_host.h"

namespace dtrain::launch {
namespace {

uint32_t number(ExitCode code) { return static_cast<uint32_t>(code); }

// The words of ssh without those of its own that say nothing more.
std::string one_line(const std::string& words) {
  std::string out = words;
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
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
    hosts_[i].problems.push_back({number(code), std::move(text)});
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

  // Until all of them are what is asked, or lost, or the time is over.
  void wait_for(const std::function<bool(const RemoteHost&)>& done) {
    const Instant deadline = clock_.now() + static_cast<Nanoseconds>(options_.patience * kSecond);
    const auto open = [&](size_t i) { return good(i) && !remote(i)->lost() && !done(*remote(i)); };
    while (clock_.now() < deadline && std::any_of(remote_.begin(), remote_.end(), open)) {
      std::vector<pollfd> wait;
      for (size_t i : remote_)
        if (good(i)) remote(i)->descriptors(wait);
      poll(wait.data(), wait.size(), 50);
      for (size_t i : remote_)
        if (good(i)) remote(i)->work(events_);
    }
  }

  bool lacks_program(size_t i) {
    if (!good(i)) return false;
    const RemoteHost& host = *remote(i);
    return host.greeting() ? host.greeting()->version != options_.version
                           : host.lost() && host.end().is(static_cast<ExitCode>(kNoProgram));
  }

  void bring_program() {
    std::vector<size_t> to;
    std::vector<std::string> lines;
    for (size_t i : remote_) {
      if (!lacks_program(i)) continue;
      to.push_back(i);
      lines.push_back(program_line(options_.ssh, wanted_[i].target, options_.program, options_.store));
    }
    if (to.empty()) return;
    const std::vector<std::string> failures = run_lines(lines, options_.copy_patience);
    for (size_t n = 0; n < to.size(); ++n) {
      if (!failures[n].empty())
        problem(to[n], ExitCode::kUsage, fmt::format("dtrain cannot be copied there: {}", one_line(failures[n])));
      else
        connect(to[n]);
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
                            host.greeting()->version, options_.version));
      return;
    }
    if (!host.lost())
      return problem(i, ExitCode::kPeerLost,
                     fmt::format("no answer within {:g} s: does a login there wait for something?", options_.patience));
    if (host.end().is(static_cast<ExitCode>(kNoProgram)))
      return problem(i, ExitCode::kUsage,
                     fmt::format("there is no dtrain{}: install the package there, let --sync bring this one, or "
                                 "name its path by --remote_dtrain{}",
                                 options_.remote_program.empty() ? " in the PATH" : " at " + options_.remote_program,
                                 host.last_words().empty() ? "" : " (" + one_line(host.last_words()) + ")"));
    constexpr int kSshFailed = 255;
    const std::string words = host.last_words().empty() ? to_string(host.end()) : one_line(host.last_words());
    if (!host.end().is(static_cast<ExitCode>(kSshFailed)))
      return problem(i, ExitCode::kUsage,
                     fmt::format("dtrain there does not start ({}): {}; does it run there by hand? (--sync does not "
                                 "bring the libraries)",
                                 to_string(host.end()), words));
    const std::string hint = ssh_hint(words, wanted_[i].target.host);
    problem(i, ExitCode::kPeerLost, fmt::format("not reached: {}{}{}", words, hint.empty() ? "" : "; ", hint));
  }

  // By rsync where both sides have it, else, or where that fails, by tar.
  void copy_files() {
    for (const bool by_rsync : {true, false}) {
      std::vector<size_t> to;
      std::vector<std::string> lines;
      for (size_t i : remote_) {
        if (!good(i) || copied(i) || (by_rsync && !remote(i)->greeting()->rsync)) continue;
        std::string line;
        for (const CopyJob& job : options_.copies)
          line += (line.empty() ? "" : " && ") +
                  ("{ " + (by_rsync ? rsync_line : tar_line)(options_.ssh, wanted_[i].target, job) + "; }");
        if (line.empty()) continue;
        to.push_back(i);
        lines.push_back(line);
      }
      const std::vector<std::string> failures = run_lines(lines, options_.copy_patience);
      for (size_t n = 0; n < to.size(); ++n) {
        if (failures[n].empty())
          copied_.push_back(to[n]);
        else if (!by_rsync)
          problem(to[n], ExitCode::kUsage,
                  fmt::format("the run's files cannot be copied there: {}", one_line(failures[n])));
      }
    }
  }
  bool copied(size_t i) const { return std::find(copied_.begin(), copied_.end(), i) != copied_.end(); }

  void prepare() {
    const bool alone = std::all_of(remote_.begin(), remote_.end(), [&](size_t i) {
      return !good(i) || remote(i)->greeting()->machine == options_.machine;
    });
    for (size_t i : remote_) {
      if (!good(i)) continue;
      Preparation what = wanted_[i].preparation;
      what.alone = alone;
      remote(i)->prepare(what);
    }
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!wanted_[i].here) continue;
      hosts_[i].host = std::make_unique<LocalHost>(wanted_[i].name, options_.program, options_.prepare_here);
      Preparation what = wanted_[i].preparation;
      what.alone = alone;
      hosts_[i].host->prepare(what);
    }
    wait_for([](const RemoteHost& host) { return host.prepared().has_value(); });
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (!good(i)) continue;
      const Host& host = *hosts_[i].host;
      if (host.prepared()) {
        hosts_[i].problems = host.prepared()->problems;
        hosts_[i].warnings = host.prepared()->warnings;
        if (hosts_[i].problems.empty() && host.prepared()->ports.size() != wanted_[i].preparation.tasks.size())
          problem(i, ExitCode::kBug, "it answered with the ports of other tasks");
      } else {
        problem(i, ExitCode::kPeerLost,
                host.lost() ? fmt::format("the connection ended while it looked whether its tasks can run: {}",
                                          one_line(remote(i)->last_words()))
                            : fmt::format("it did not say within {:g} s whether its tasks can run", options_.patience));
      }
    }
  }

  const std::vector<WantedHost>& wanted_;
  const GatherOptions& options_;
  HostEvents& events_;
  const Clock& clock_;
  std::vector<GatheredHost> hosts_;
  std::vector<size_t> remote_, copied_;
};

}  // namespace

std::vector<GatheredHost> gather(const std::vector<WantedHost>& wanted, const GatherOptions& options,
                                 HostEvents& events, const Clock& clock) {
  return Gathering(wanted, options, events, clock).run();
}

}  // namespace dtrain::launch
