// The program: finds the command, parses its flags, turns what goes wrong into a message and an exit code.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/nearest.h"
#include "commands.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

std::string option_flag(const std::string& word) {  // "--job-nme=x" → "job_nme"
  std::string name = word.substr(0, word.find('='));
  name.erase(0, name.find_first_not_of('-'));
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

// What CLI11 does not say: which known word an unknown one was meant to be.
std::string did_you_mean(const CLI::App& app, const std::vector<std::string>& words) {
  const auto chosen = app.get_subcommands();
  const CLI::App& scope = chosen.empty() ? app : *chosen.front();
  std::vector<std::string> flags, commands;
  for (const CLI::Option* option : scope.get_options())
    if (!option->get_lnames().empty()) flags.push_back(option->get_lnames().front());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); }))
    commands.push_back(command->get_name());
  for (const std::string& word : words) {
    if (word.rfind("--", 0) == 0) {
      const std::string near = nearest(option_flag(word), flags);
      if (near.empty() && scope.get_name() == "run" &&
          (word.starts_with("--workers") || word.starts_with("--hostfile")))
        return fmt::format("unknown flag '{}': dtrain launch starts workers, run is one process",
                           word.substr(0, word.find('=')));
      return fmt::format("unknown flag '{}'{}", word.substr(0, word.find('=')),
                         near.empty() ? "" : fmt::format(" (did you mean '--{}'?)", near));
    }
    if (chosen.empty()) return fmt::format("unknown command '{}'{}", word, suggestion(word, commands));
  }
  return fmt::format("unexpected argument '{}'", words.front());
}

// Of a command that has parts, as params has ls, none was named.
std::string missing_part(const CLI::App& command, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* part : command.get_subcommands({})) names.push_back(part->get_name());
  const std::string parts = fmt::format("{}", fmt::join(names, ", "));
  if (given.empty() || given.front() == '-') return fmt::format("{} what: {}?", command.get_name(), parts);
  return fmt::format("{} has no '{}'{}", command.get_name(), given, suggestion(given, names));
}

ExitCode run(int argc, char** argv) {
  CLI::App app("Trains neural networks on a cluster, from declarative files: the same bits on any number of machines.",
               "dtrain");
  app.set_version_flag("--version", "dtrain " DTRAIN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 a bug, 2 usage or configuration, 3 data, 4 peer lost, 5 checkpoint, 6 guest not taken,\n"
      "7 not finite, 130 interrupted.\n"
      "Every flag takes '-' and '_' alike; what the environment can give instead stands behind it as Env.\n"
      "Manual: man dtrain, man dtrain-<command>, man dtrain.toml. A message that begins with \"dtrain: bug\" is worth "
      "a\n"
      "report, with the run file and the output of dtrain --version.");

  std::function<ExitCode()> action;
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    auto todo = command->setup(*sub);
    sub->callback([&action, todo] { action = todo; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    app.exit(e);  // --help, --version
    return ExitCode::kDone;
  } catch (const CLI::ExtrasError&) {
    const auto chosen = app.get_subcommands();
    const auto words = chosen.empty() ? app.remaining() : chosen.front()->remaining();
    fmt::print(stderr, "dtrain: {}; see dtrain {}--help\n",
               did_you_mean(app, words.empty() ? app.remaining(true) : words),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return ExitCode::kUsage;
  } catch (const CLI::ParseError& e) {
    if (argc == 1) {
      fmt::print(stderr, "{}", app.help());
      return ExitCode::kUsage;
    }
    // An unknown first word makes CLI11 complain of the missing command; the word is what the user wants to hear about.
    if (app.get_subcommands().empty())
      fmt::print(stderr, "dtrain: {}; see dtrain --help\n", did_you_mean(app, {argv[1]}));
    else if (const CLI::App& command = *app.get_subcommands().front();
             command.get_require_subcommand_min() > 0 && command.get_subcommands().empty())
      fmt::print(stderr, "dtrain: {}; see dtrain {} --help\n", missing_part(command, argc > 2 ? argv[2] : ""),
                 command.get_name());
    else
      fmt::print(stderr, "dtrain: {}; see dtrain {}--help\n", e.what(),
                 app.get_subcommands().empty() ? "" : app.get_subcommands().front()->get_name() + " ");
    return ExitCode::kUsage;
  }
  try {
    return action();
  } catch (const std::system_error&) {
    if (std::ferror(stdout) && reader_is_gone()) return ExitCode::kDone;  // fmt's word for a write that failed
    throw;
  }
}

}  // namespace
}  // namespace dtrain::cmd

int main(int argc, char** argv) {
  dtrain::cmd::prepare_process();
  return dtrain::cmd::end_process(dtrain::cmd::run(argc, argv));
}
