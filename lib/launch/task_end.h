// How a started task ended, as far as its launcher knows.
#pragma once

#include <string>

#include "base/exit_code.h"

namespace dtrain::launch {

struct TaskEnd {
  enum class Kind { kExited, kSignalled, kLost };
  Kind kind = Kind::kExited;
  int value = 0;    // exit code or signal number
  std::string why;  // of a lost one: "the connection to node2 ended: …"

  static TaskEnd exited(int code) { return {Kind::kExited, code, ""}; }
  static TaskEnd signalled(int number) { return {Kind::kSignalled, number, ""}; }
  static TaskEnd lost(std::string why) { return {Kind::kLost, 0, std::move(why)}; }

  bool good() const { return kind == Kind::kExited && value == 0; }
  bool is(ExitCode code) const { return kind == Kind::kExited && value == static_cast<int>(code); }
  // What it means for the run: the task's own code; a task that was killed or lost counts as a lost peer.
  ExitCode code() const { return kind == Kind::kExited ? static_cast<ExitCode>(value) : ExitCode::kPeerLost; }
};

std::string to_string(const TaskEnd& end);  // "exit code 4", "killed by signal 9 (Killed)", "lost: …"

// Of two codes the one that tells more of what went wrong: a cause before a consequence, and anything before 0.
ExitCode worse(ExitCode a, ExitCode b);

}  // namespace dtrain::launch
