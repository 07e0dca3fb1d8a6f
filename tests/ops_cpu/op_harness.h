// Plans and runs one op of one backend on row-major values, as the planner and the executor do: inputs reordered to the
// layouts that the kernel wants, outputs back. Watches what a kernel must not do: write beyond its buffers or into its
// inputs, leave output bytes unwritten, put anything but zeros into padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {

constexpr std::string_view kPaddingComplaint = "padding is not zero";

struct Outcome {
  std::optional<std::string> refused;  // why the backend does not support the request; the rest is empty then
  std::string implementation;
  std::vector<Value> outputs;  // row-major; opaque ones as they are
  std::vector<std::string> complaints;
};

// How rank-4 fp32 inputs that are not parameters come.
enum class Images {
  kPlain,
  kConvolved,  // as the backend's convolution of a row-major value leaves them
  kBlocked,    // as its convolution of 16 blocked channels does, padding included
};

struct HarnessOptions {
  Images images = Images::kPlain;
  bool in_place =
      false;  // shares the buffers of the kernel's first in_place pair; where it has none, no run and no outputs
};

Outcome run_case(const std::string& backend, const OpCase& c, const HarnessOptions& options = {});

}  // namespace dtrain::ops::test
