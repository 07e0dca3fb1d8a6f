#include "config/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace dtrain::config {

void Diagnostics::error(const Position& position, std::string message, ExitCode code) {
  for (const Diagnostic& d : kept_) {
    if (d.position == position && d.message == message) return;
  }
  if (full()) {
    ++left_out_;
    return;
  }
  kept_.push_back({position, std::move(message), code});
}

Status Diagnostics::status() const {
  if (kept_.empty()) return {};
  std::vector<std::string> files;  // in the order in which errors named them
  auto rank = [&files](const std::string& file) { return std::find(files.begin(), files.end(), file) - files.begin(); };
  for (const Diagnostic& d : kept_) {
    if (rank(d.position.file()) == static_cast<ptrdiff_t>(files.size())) files.push_back(d.position.file());
  }
  std::vector<const Diagnostic*> sorted;
  for (const Diagnostic& d : kept_) sorted.push_back(&d);
  auto place = [&rank](const Diagnostic* d) {
    return std::tuple(rank(d->position.file()), d->position.line(), d->position.column());
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&place](const Diagnostic* a, const Diagnostic* b) { return place(a) < place(b); });

  ExitCode code = kept_.front().code;
  std::string lines;
  for (const Diagnostic* d : sorted) {
    if (d->code == ExitCode::kUsage) code = ExitCode::kUsage;
    const std::string where = to_string(d->position);
    lines += fmt::format("{}{}{}error: {}", lines.empty() ? "" : "\n", where, where.empty() ? "" : ": ", d->message);
  }
  if (left_out_ > 0) lines += fmt::format("\nand {} more error{}", left_out_, left_out_ == 1 ? "" : "s");
  return fail(code, std::move(lines));
}

}  // namespace dtrain::config
