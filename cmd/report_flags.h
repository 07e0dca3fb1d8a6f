// How a part of `dtrain benchmark` says what it measured: --json, and --compare with what it said before.
#pragma once

#include <optional>
#include <string>

#include "figures/report.h"
#include "flags.h"

namespace dtrain::cmd {

struct ReportFlags {
  bool json = false;
  std::string compare;

  void declare(CLI::App& app);
  // What --compare names, before anything is measured; nothing without it.
  Result<std::optional<figures::Report>> earlier(const std::string& part, const std::string& run) const;
  // `text` is what people read in place of the usual table.
  Status print(const figures::Report& now, const std::optional<figures::Report>& then,
               const std::string& text = "") const;
};

// This machine and its peaks with so many threads, which takes about a second.
figures::Machine measure_machine(int threads);

}  // namespace dtrain::cmd
