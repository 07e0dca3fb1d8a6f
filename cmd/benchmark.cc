// dtrain benchmark: how fast it is. One file a part.
#include <CLI/CLI.hpp>
#include <vector>

#include "benchmark_parts.h"
#include "commands.h"

namespace dtrain::cmd {

const Command kBenchmark{"benchmark",
                         "say how fast steps, data, more workers, the wire and the encodings of gradients are",
                         [](CLI::App& app) -> std::function<ExitCode()> {
                           app.require_subcommand(1);
                           return [parts = std::vector{benchmark_step(app), benchmark_data(app), benchmark_scaling(app),
                                                       benchmark_wire(app), benchmark_compress(app)}] {
                             for (const BenchmarkPart& part : parts)
                               if (part.app->parsed()) return part.run();
                             return ExitCode::kUsage;
                           };
                         }};

}  // namespace dtrain::cmd
