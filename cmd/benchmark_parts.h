// The sub-commands of `dtrain benchmark`: each declares its flags and says what to do when it was chosen.
#pragma once

#include <functional>

#include "base/exit_code.h"

namespace CLI {
class App;
}

namespace dtrain::cmd {

struct BenchmarkPart {
  const CLI::App* app;
  std::function<ExitCode()> run;
};

BenchmarkPart benchmark_step(CLI::App& app);
BenchmarkPart benchmark_data(CLI::App& app);
BenchmarkPart benchmark_scaling(CLI::App& app);
BenchmarkPart benchmark_wire(CLI::App& app);
BenchmarkPart benchmark_compress(CLI::App& app);

}  // namespace dtrain::cmd
