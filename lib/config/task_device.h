// Where a layer is to be computed: the value of its key `device`, such as "/job:worker/task:1". Which tasks there are
// is not known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::config {

struct TaskDevice {
  std::string job;
  int64_t task = 0;
  Position position;  // of the value
};

// Of "/job:NAME/task:NUMBER"; anything else goes to `diagnostics`, with what was probably meant. `what` names the
// layer: "layer 'conv1'".
std::optional<TaskDevice> read_task_device(std::string_view text, const Position& position, std::string_view what,
                                           Diagnostics& diagnostics);

// The configuration of a run without the devices of its layers, which change nothing of what comes out.
Value without_devices(Value root);

}  // namespace dtrain::config
