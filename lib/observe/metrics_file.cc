#include "observe/metrics_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace dtrain::observe {
namespace {

Status cannot(const std::string& what, const std::string& path) {
  return fail(ExitCode::kUsage, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

Status cut_after(const std::string& path, int64_t step) {
  std::ifstream in(path);
  if (!in) return {};  // nothing there yet
  const std::string beside = path + ".cut";
  std::ofstream out(beside, std::ios::trunc);
  for (std::string text; std::getline(in, text);) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) continue;  // the torn last line of a killed run
    if (json.contains("step") && json["step"].is_number() && json["step"].get<int64_t>() > step) continue;
    out << text << '\n';
  }
  out.flush();
  if (!out) return cannot("write", beside);
  if (std::rename(beside.c_str(), path.c_str()) != 0) return cannot("replace", path);
  return {};
}

}  // namespace

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }
std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<MetricsFile> MetricsFile::open(const std::string& path, std::optional<int64_t> resume_step) {
  std::error_code none;
  if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none))
    return fail(ExitCode::kUsage, fmt::format("{} is not a regular file", path));
  if (resume_step) DTRAIN_TRY(cut_after(path, *resume_step));
  std::ofstream out(path, std::ios::app);
  if (!out) return tl::unexpected(cannot("open", path).error());
  return MetricsFile(path, std::move(out));
}

Status MetricsFile::step(const StepRow& row) {
  std::string text =
      fmt::format(R"({{"step": {}, "epoch": {:.4f}, "loss": {})", row.step, row.epoch, json_number(row.loss));
  for (const auto& [name, share] : row.shares) text += fmt::format(R"(, "{}": {})", name, json_number(share));
  text += fmt::format(R"(, "lr": {}, "samples_per_s": {:.1f})", json_number(row.rate), row.samples_per_s);
  if (row.stale)
    text += fmt::format(R"(, "lag_mean": {:.3f}, "lag_p99": {}, "dropped": {})", row.stale->mean, row.stale->p99,
                        row.stale->dropped);
  return line(text + "}");
}

Status MetricsFile::event(const std::string& name, const Fields& fields) {
  std::string text = fmt::format(R"({{"event": {})", json_string(name));
  for (const auto& [key, value] : fields) text += fmt::format(", {}: {}", json_string(key), value);
  return line(text + "}");
}

Status MetricsFile::line(const std::string& text) {
  out_ << text << '\n';
  out_.flush();
  if (!out_) return cannot("write", path_);
  return {};
}

}  // namespace dtrain::observe
