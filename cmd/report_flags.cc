#include "report_flags.h"

#include <omp.h>

#include <fstream>
#include <thread>

#include "base/file_system.h"
#include "figures/comparison.h"
#include "ops/cpu/machine_peak.h"

namespace dtrain::cmd {
namespace {

constexpr uint64_t kLargestReport = 64u << 20;

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

}  // namespace

void ReportFlags::declare(CLI::App& app) {
  add_switch(app, "--json", json, "print one line of JSON");
  add_flag_value(app, "--compare", compare, "say what changed since this earlier output of --json")->type_name("FILE");
}

Result<std::optional<figures::Report>> ReportFlags::earlier(const std::string& part, const std::string& run) const {
  if (compare.empty()) return std::optional<figures::Report>();
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const std::string text, under_code(ExitCode::kUsage, files.read_file(compare, kLargestReport)));
  DTRAIN_TRY_ASSIGN(auto then, figures::read_report(text, compare));
  figures::Report now;
  now.part = part;
  now.run = run;
  DTRAIN_TRY(figures::compare(now, then, compare));
  return std::optional(std::move(then));
}

Status ReportFlags::print(const figures::Report& now, const std::optional<figures::Report>& then,
                          const std::string& text) const {
  std::optional<figures::Comparison> comparison;
  if (then) {
    DTRAIN_TRY_ASSIGN(comparison, figures::compare(now, *then, compare));
  }
  if (!json) {
    fmt::print("{}{}", text.empty() ? figures::to_text(now) : text,
               comparison ? figures::to_text(*comparison) : std::string());
    return {};
  }
  std::string line = figures::to_json(now);
  if (comparison) line.insert(line.size() - 1, ", \"compared\": " + figures::to_json(*comparison));
  fmt::print("{}\n", line);
  return {};
}

figures::Machine measure_machine(int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const ops::cpu::MachinePeak peak = ops::cpu::measure_peak();
  omp_set_num_threads(before);
  return {.cpu = cpu_model(),
          .cores = static_cast<int>(std::thread::hardware_concurrency()),
          .threads = threads,
          .gflops = peak.gflops,
          .gbytes = peak.gbytes};
}

}  // namespace dtrain::cmd
