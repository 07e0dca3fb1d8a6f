// What a launcher and its agent on another host say to each other: one line of JSON a message, over the two ends of an
// ssh connection. Lines because a login shell may print before the agent does, and people want to read along.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace dtrain::launch {

// How often each side says that it is there, and how long the other one believes so. Together with the time that it
// takes to kill processes this is within the 5 s after which nothing is to be left anywhere.
constexpr Nanoseconds kAliveEvery = 500 * kMillisecond, kAliveFor = 4 * kSecond;

// Agent: its first word. An older or newer one may say less: its version is enough.
struct Greeting {
  static constexpr bool kLenient = true;
  static constexpr const char* kType = "greeting";
  std::string version;  // of the program and of the protocol between tasks
  std::string machine;  // the same for all that share a kernel and its network
  bool rsync = false;   // there is one in the PATH

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("version", m.version);
    v("machine", m.machine);
    v("rsync", m.rsync);
  }
};

struct PlannedTask {
  uint32_t id = 0;    // by which the launcher calls it
  std::string name;   // "worker/3"
  std::string host;   // whose address it listens at
  uint32_t port = 0;  // 0: any; then a free one is taken
  bool listens = true;
  bool computes = false, serves = false, coordinates = false;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("id", m.id);
    v("name", m.name);
    v("host", m.host);
    v("port", m.port);
    v("listens", m.listens);
    v("computes", m.computes);
    v("serves", m.serves);
    v("coordinates", m.coordinates);
  }
};

// Launcher: look whether these tasks can run here.
struct Preparation {
  static constexpr const char* kType = "prepare";
  std::string folder;  // to run in
  std::string run_file, init, out;
  std::string run_digest;  // of the run file as the launcher reads it, in digits
  std::vector<std::string> set;
  bool resume = false, auto_resume = false;
  uint32_t workers = 1, servers = 1;  // of the whole run
  bool alone = false;                 // all tasks are on this machine: its loopback addresses will do
  std::vector<PlannedTask> tasks;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("folder", m.folder);
    v("run_file", m.run_file);
    v("run_digest", m.run_digest);
    v("init", m.init);
    v("out", m.out);
    v("set", m.set);
    v("resume", m.resume);
    v("auto_resume", m.auto_resume);
    v("workers", m.workers);
    v("servers", m.servers);
    v("alone", m.alone);
    v("tasks", m.tasks);
  }
};

struct Problem {
  uint32_t code = 0;  // ExitCode
  std::string text;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("code", m.code);
    v("text", m.text);
  }
};

// Agent: the ports, or what is in the way.
struct Prepared {
  static constexpr const char* kType = "prepared";
  std::vector<uint32_t> ports;  // of the tasks, in their order
  std::vector<Problem> problems;
  std::vector<std::string> warnings;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("ports", m.ports);
    v("problems", m.problems);
    v("warnings", m.warnings);
  }
};

// Launcher: start it. `secret` goes to its standard input; it may be any bytes, so it travels as digits.
struct TaskStart {
  static constexpr const char* kType = "start";
  uint32_t task = 0;
  std::string name;
  std::vector<std::string> words;        // after the program's path
  std::vector<std::string> environment;  // NAME=VALUE, beside what is there
  std::string secret;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("task", m.task);
    v("name", m.name);
    v("words", m.words);
    v("environment", m.environment);
    v("secret", m.secret);
  }
};

struct SignalTask {
  static constexpr const char* kType = "signal";
  uint32_t task = 0, number = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("task", m.task);
    v("number", m.number);
  }
};

struct TaskLine {
  static constexpr const char* kType = "line";
  uint32_t task = 0;
  std::string text;
  bool rewrite = false;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("task", m.task);
    v("text", m.text);
    v("rewrite", m.rewrite);
  }
};

struct TaskReady {
  static constexpr const char* kType = "ready";
  uint32_t task = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("task", m.task);
  }
};

struct TaskEnded {
  static constexpr const char* kType = "ended";
  uint32_t task = 0, value = 0;
  bool signalled = false;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("task", m.task);
    v("value", m.value);
    v("signalled", m.signalled);
  }
};

// Both, several times a second: I am there.
struct Alive {
  static constexpr const char* kType = "alive";
  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
};

using AgentMessage =
    std::variant<Greeting, Preparation, Prepared, TaskStart, SignalTask, TaskLine, TaskReady, TaskEnded, Alive>;

// Two digits a byte, and back; what are no digits is nothing.
std::string to_digits(const std::string& bytes);
std::string from_digits(const std::string& digits);

// With its line's end. Bytes that are no UTF-8 become U+FFFD.
std::string encode(const AgentMessage& message);
// Of one line without its end. Errors (kPeerLost): it is none.
Result<AgentMessage> decode(const std::string& line);

}  // namespace dtrain::launch
