// Other programs that are run to their end, several at the same time, with a deadline: ssh -G, rsync, tar.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/child.h"

namespace dtrain::launch {

// One program, or several of which each reads what the one before it writes.
struct Pipeline {
  std::vector<std::vector<std::string>> programs;   // argv each
  std::optional<std::string> input = std::nullopt;  // of the first one; absent: nothing
  std::string input_file = {};                      // or this file's content
};

struct PipelineEnd {
  bool good = false;
  TaskEnd end;         // of the first program that failed
  std::string output;  // of the last one and all that they complained of, without the last line's end
  // What went wrong, in its own words where it had some.
  std::string why() const;
};

// Ends all that is left after `seconds`. `serve` is called several times a second meanwhile, for whoever must not be
// kept waiting. Whatever they started dies with this process.
std::vector<PipelineEnd> run_pipelines(const std::vector<Pipeline>& pipelines, double seconds,
                                       const std::function<void()>& serve = {});

}  // namespace dtrain::launch
