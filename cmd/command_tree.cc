#include "command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace dtrain::cmd {
namespace {

// CLI11 describes a value as "TEXT:{ps,workers,all}", "FILE" or "INT:INT in [0 - 9]".
std::string type_of(const CLI::Option& option) {
  return option.get_type_name().substr(0, option.get_type_name().find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find(":{"), close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 2, close - open - 2), ',');
}

bool takes_a_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }
bool repeatable(const CLI::Option& option) { return option.get_expected_max() > 1; }

Value value_of(const CLI::Option& option, const std::string& kind) {
  if (!takes_a_value(option)) return Value::kNothing;
  if (!choices_of(option).empty()) return Value::kChoice;
  if (kind == "FILE" || kind == "PATH") return Value::kFile;
  if (kind == "DIR") return Value::kFolder;
  if (kind == "RUN") return Value::kRunFile;
  return Value::kText;
}

FlagEntry flag(const CLI::Option& option) {
  FlagEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  const std::vector<std::string>& names = option.get_lnames();
  // A name with '-' is another spelling where the one with '_' is there too.
  auto respelt = [&names](const std::string& name) {
    return std::any_of(names.begin(), names.end(), [&name](std::string other) {
      const bool same = other == name;
      std::replace(other.begin(), other.end(), '_', '-');
      return !same && other == name;
    });
  };
  for (const std::string& name : names) (respelt(name) ? entry.dashed : entry.names).push_back("--" + name);
  entry.text = option.get_description();
  entry.value = value_of(option, type_of(option));
  entry.value_name = type_of(option);
  entry.choices = choices_of(option);
  entry.repeatable = repeatable(option);
  return entry;
}

CommandEntry command(const CLI::App& app, std::vector<std::string> path) {
  CommandEntry entry;
  entry.path = std::move(path);
  entry.text = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional())
      entry.arguments.push_back(
          {option->get_name(true), value_of(*option, option->get_name(true)), repeatable(*option)});
    else if (!option->get_group().empty())
      entry.flags.push_back(flag(*option));
  }
  for (const CLI::App* part : app.get_subcommands(nullptr)) {
    if (part->get_group().empty()) continue;
    std::vector<std::string> below = entry.path;
    below.push_back(part->get_name());
    entry.parts.push_back(command(*part, std::move(below)));
  }
  return entry;
}

}  // namespace

CommandEntry command_tree(const CLI::App& app) { return command(app, {}); }

}  // namespace dtrain::cmd
