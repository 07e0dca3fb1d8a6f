#include "figures/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dtrain::figures {
namespace {

Change change(const Figure& now, const Figure& then) {
  if (now.rounds < kLeastRounds || then.rounds < kLeastRounds) return Change::kUnknown;
  if (now.low > then.high) return now.less_is_better ? Change::kSlower : Change::kFaster;
  if (now.high < then.low) return now.less_is_better ? Change::kFaster : Change::kSlower;
  return Change::kNone;
}

std::string word_text(const Word& word) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, word);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string> settings_that_differ(const Report& now, const Report& then) {
  std::vector<std::string> notes;
  for (const auto& [name, value] : now.settings) {
    const auto old = std::find_if(then.settings.begin(), then.settings.end(),
                                  [&key = name](const auto& setting) { return setting.first == key; });
    if (old != then.settings.end() && old->second != value)
      notes.push_back(fmt::format("{} was {} and is {}", name, word_text(old->second), word_text(value)));
  }
  return notes;
}

}  // namespace

const char* to_string(Change change) {
  switch (change) {
    case Change::kFaster:
      return "faster";
    case Change::kSlower:
      return "slower";
    case Change::kNone:
      return "no difference within the spread";
    case Change::kUnknown:
      return "too few rounds to say";
    case Change::kNew:
      break;
  }
  return "new";
}

Result<Comparison> compare(const Report& now, const Report& then, const std::string& file) {
  if (then.part != now.part)
    return fail(ExitCode::kUsage,
                fmt::format("--compare: '{}' is of dtrain benchmark {}, and this is {}", file, then.part, now.part));
  if (file_name(then.run) != file_name(now.run))
    return fail(ExitCode::kUsage, fmt::format("--compare: '{}' is of the run file {}, and this is of {}", file,
                                              then.run.empty() ? "(none)" : then.run, now.run));
  Comparison out;
  if (!then.machine.same(now.machine))
    out.notes.push_back(fmt::format("other machines: then {}, {} cores; now {}, {} cores", then.machine.cpu,
                                    then.machine.cores, now.machine.cpu, now.machine.cores));
  for (std::string& note : settings_that_differ(now, then)) out.notes.push_back(std::move(note));
  for (const Figure& f : now.figures) {
    const Figure* old = then.find(f.name);
    out.differences.push_back({f.name, f.group.empty() ? f.text : f.group + ": " + f.text, f.unit,
                               old ? old->median : 0, f.median, old ? change(f, *old) : Change::kNew});
  }
  for (const Figure& f : then.figures)
    if (!now.find(f.name)) out.notes.push_back(f.name + " was measured then and is not now");
  return out;
}

std::string to_text(const Comparison& comparison) {
  std::string out = fmt::format("\n{:<54} {:>11} {:>11} {:>7}\n", "compared by medians", "then", "now", "ratio");
  for (const Difference& d : comparison.differences)
    out += d.change == Change::kNew ? fmt::format("{:<54} {:>11} {:>11.4g} {:>7}  new\n", d.text, "", d.now, "")
                                    : fmt::format("{:<54} {:>11.4g} {:>11.4g} {:>7.3f}  {}\n", d.text, d.then, d.now,
                                                  d.ratio(), to_string(d.change));
  for (const std::string& note : comparison.notes) out += "note: " + note + "\n";
  return out;
}

std::string to_json(const Comparison& comparison) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Difference& d : comparison.differences)
    all.push_back(
        {{"name", d.name}, {"then", d.then}, {"now", d.now}, {"ratio", d.ratio()}, {"change", to_string(d.change)}});
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace dtrain::figures
