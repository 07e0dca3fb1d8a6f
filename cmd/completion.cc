// dtrain completion: prints what a shell needs to complete the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "completion_script.h"

namespace dtrain::cmd {

const Command kCompletion{
    "completion", "print the script by which a shell completes dtrain's command line",
    [](CLI::App& app) -> std::function<ExitCode()> {
      app.group("");  // for packages: not among what `dtrain --help` lists
      auto shell = std::make_shared<std::string>();
      app.add_option("SHELL", *shell, "which shell")->required()->check(CLI::IsMember({"bash", "zsh"}));
      return [&app, shell] {
        const CommandEntry program = command_tree(*app.get_parent());
        fmt::print("{}", *shell == "bash" ? bash_completion(program) : zsh_completion(program));
        return ExitCode::kDone;
      };
    }};

}  // namespace dtrain::cmd
