#include "launch/task_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace dtrain::launch {

std::string to_string(const TaskEnd& end) {
  if (end.kind == TaskEnd::Kind::kLost) return "lost: " + end.why;
  return end.kind == TaskEnd::Kind::kSignalled
             ? fmt::format("killed by signal {} ({})", end.value, strsignal(end.value))
             : fmt::format("exit code {}", end.value);
}

ExitCode worse(ExitCode a, ExitCode b) {
  // From the mildest on. A code that is not in the table is nobody's consequence either.
  constexpr std::array kOrder = {ExitCode::kDone,           ExitCode::kInterrupted, ExitCode::kPeerLost,
                                 ExitCode::kAuthentication, ExitCode::kUsage,       ExitCode::kData,
                                 ExitCode::kCheckpoint,     ExitCode::kNotFinite};
  const auto rank = [&](ExitCode code) { return std::find(kOrder.begin(), kOrder.end(), code) - kOrder.begin(); };
  return rank(a) >= rank(b) ? a : b;
}

}  // namespace dtrain::launch
