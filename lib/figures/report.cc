#include "figures/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtrain::figures {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Words& words) {
  Json out = Json::object();
  for (const auto& [name, word] : words) std::visit([&, &key = name](const auto& value) { out[key] = value; }, word);
  return out;
}

Json to_json(const Figure& f) {
  Json out{{"name", f.name},     {"unit", f.unit},    {"less_is_better", f.less_is_better},
           {"median", f.median}, {"low", f.low},      {"high", f.high},
           {"best", f.best},     {"rounds", f.rounds}};
  if (f.peak > 0) out.update({{"peak", f.peak}, {"peak_of", f.peak_of}});
  return out;
}

// Four digits that count, and no more than are of use behind the point.
std::string number(double x) {
  const double size = std::abs(x);
  return fmt::format("{:.{}f}", x, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string peak_text(const Figure& f) {
  if (f.peak == 0) return "";
  return fmt::format("   {:.0f} % of {} {}, {}", 100 * f.of_peak(), number(f.peak), f.unit, f.peak_of);
}

}  // namespace

const Figure* Report::find(std::string_view name) const {
  const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::string to_text(const Report& report) {
  std::string out = report.title.empty() ? "" : report.title + "\n";
  out += fmt::format("{}, {} core{}", report.machine.cpu, report.machine.cores, report.machine.cores == 1 ? "" : "s");
  if (report.machine.gflops > 0)
    out += fmt::format("; measured peak of {} thread{}: {:.1f} GFLOP/s, {:.1f} GB/s of memory", report.machine.threads,
                       report.machine.threads == 1 ? "" : "s", report.machine.gflops, report.machine.gbytes);
  out += "\n";
  const std::string* group = nullptr;
  for (const Figure& f : report.figures) {
    if (!group || *group != f.group)
      out += fmt::format("\n{:<38} {:>10} {:>21} {:>10}\n", f.group, "median", "quartiles", "best");
    group = &f.group;
    out += fmt::format("{:<38} {:>10} {:>9} … {:<9} {:>10} {}{}\n", "  " + f.text, number(f.median), number(f.low),
                       number(f.high), number(f.best), f.unit, peak_text(f));
  }
  if (!report.verdict.empty()) out += fmt::format("\n{}\n", report.verdict);
  return out;
}

std::string to_json(const Report& report) {
  const Machine& m = report.machine;
  Json out{{"program", report.program}, {"part", report.part}};
  if (!report.run.empty()) out["run"] = report.run;
  out["settings"] = to_json(report.settings);
  out["machine"] = {
      {"cpu", m.cpu}, {"cores", m.cores}, {"threads", m.threads}, {"peak_gflops", m.gflops}, {"peak_gbytes", m.gbytes}};
  out.update(to_json(report.also));
  if (!report.verdict.empty()) out["verdict"] = report.verdict;
  out["figures"] = Json::array();
  for (const Figure& f : report.figures) out["figures"].push_back(to_json(f));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Report> read_report(const std::string& json, const std::string& file) {
  const auto is_none = [&](const std::string& why) {
    return fail(ExitCode::kUsage,
                fmt::format("--compare: '{}' is not what dtrain benchmark --json prints: {}", file, why));
  };
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) return is_none("it holds no JSON object");
  Report report;
  try {
    for (const char* key : {"part", "machine", "figures"})
      if (!root.contains(key)) return is_none(fmt::format("there is no \"{}\" in it", key));
    report.program = root.value("program", "");
    report.part = root.at("part");
    report.run = root.value("run", "");
    const Json settings = root.value("settings", Json::object());
    for (const auto& [name, value] : settings.items()) {
      if (value.is_number_integer())
        report.settings.emplace_back(name, value.get<int64_t>());
      else if (value.is_number())
        report.settings.emplace_back(name, value.get<double>());
      else
        report.settings.emplace_back(name, value.get<std::string>());
    }
    const Json& machine = root.at("machine");
    report.machine.cpu = machine.at("cpu");
    report.machine.cores = machine.at("cores");
    for (const Json& f : root.at("figures"))
      report.figures.push_back({.name = f.at("name"),
                                .text = f.at("name"),
                                .unit = f.at("unit"),
                                .group = "",
                                .less_is_better = f.at("less_is_better"),
                                .rounds = f.at("rounds"),
                                .median = f.at("median"),
                                .low = f.at("low"),
                                .high = f.at("high"),
                                .best = f.at("best"),
                                .peak = f.value("peak", 0.0),
                                .peak_of = f.value("peak_of", "")});
  } catch (const Json::exception& e) {
    return is_none(e.what());
  }
  return report;
}

}  // namespace dtrain::figures
