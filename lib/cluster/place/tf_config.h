// Which task this process is, as TensorFlow's launchers say it: the environment variable TF_CONFIG,
//   {"cluster": {"worker": ["10.0.0.1:2222", …], "ps": […]}, "task": {"type": "worker", "index": 0}}
// A job "chief" (or "master") is the first worker, and those of "worker" follow it.
#pragma once

#include <optional>
#include <string_view>

#include "cluster/place/seat.h"

namespace dtrain::cluster {

// Nothing where it names no cluster, which is TensorFlow's way to say that there is one process. Errors (kUsage) begin
// with "TF_CONFIG".
Result<std::optional<PlacedTask>> parse_tf_config(std::string_view json, const SpecOptions& options = {});

}  // namespace dtrain::cluster
