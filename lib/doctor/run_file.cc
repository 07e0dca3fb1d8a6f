// Whether the run file and its data can be read.
#include <fmt/format.h>

#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

void look(const Surroundings& here, Findings& findings) {
  if (!here.run) return;
  if (!*here.run)
    return findings.fails(here.run->error().message, here.run->error().code == ExitCode::kData
                                                         ? "bring the data, or correct the run file"
                                                         : "correct the run file");
  const node::RunDefinition& run = **here.run;
  findings.ok(fmt::format("{}: {} training samples{}, {} trainable parameters", here.run_file, run.train->size(),
                          run.test ? fmt::format(", {} test samples", run.test->size()) : "",
                          run.network->trainable_elements()));
}

}  // namespace

const Check kRunFile{"run file", look};

}  // namespace dtrain::doctor
