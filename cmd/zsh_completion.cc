#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion_script.h"

namespace dtrain::cmd {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// _arguments gives a meaning to these inside a description.
std::string described(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string action(Value value, const std::vector<std::string>& choices) {
  switch (value) {
    case Value::kNothing:
    case Value::kText:
      return " ";  // something, of which nothing is known
    case Value::kFile:
      return "_files";
    case Value::kRunFile:
      return "_files -g \"*.toml(-.)\"";
    case Value::kFolder:
      return "_files -/";
    case Value::kChoice:
      return fmt::format("({})", fmt::join(choices, " "));
  }
  return " ";
}

// A specification for each spelling; one excludes the others.
std::vector<std::string> specifications(const FlagEntry& flag) {
  std::vector<std::string> names = flag.names, specs;
  names.insert(names.end(), flag.dashed.begin(), flag.dashed.end());
  const std::string before = flag.repeatable ? "*" : names.size() > 1 ? fmt::format("({})", fmt::join(names, " ")) : "";
  for (const std::string& name : names) {
    const bool is_long = name[1] == '-';
    std::string spec = before + name;
    if (flag.value != Value::kNothing) spec += is_long ? "=" : "+";
    spec += fmt::format("[{}]", described(flag.text));
    if (flag.value != Value::kNothing)
      spec += fmt::format(":{}:{}", described(flag.value_name), action(flag.value, flag.choices));
    specs.push_back(quoted(spec));
  }
  return specs;
}

std::string function_name(const CommandEntry& command) {
  return command.path.empty() ? "_dtrain" : fmt::format("_dtrain_{}", fmt::join(command.path, "_"));
}

std::string function(const CommandEntry& command) {
  std::vector<std::string> specs;
  for (const FlagEntry& flag : command.flags) {
    const auto more = specifications(flag);
    specs.insert(specs.end(), more.begin(), more.end());
  }
  int position = 0;
  for (const ArgumentEntry& argument : command.arguments)
    specs.push_back(quoted(fmt::format("{}:{}:{}", argument.repeatable ? "*" : fmt::format("{}", ++position),
                                       described(argument.name), action(argument.value, {}))));
  const std::string name = function_name(command);
  if (command.parts.empty())
    return fmt::format("{}() {{\n  _arguments \\\n    {}\n}}\n\n", name, fmt::join(specs, " \\\n    "));

  std::string parts, cases, below;
  for (const CommandEntry& part : command.parts) {
    parts += "        " + quoted(fmt::format("{}:{}", part.path.back(), part.text)) + "\n";
    cases += fmt::format("        {}) {} && ret=0 ;;\n", part.path.back(), function_name(part));
    below += function(part);
  }
  specs.push_back("'1:command:->command'");
  specs.push_back("'*::argument:->arguments'");
  return below + fmt::format(R"({}() {{
  local curcontext="$curcontext" state line ret=1
  local -A opt_args
  _arguments -C \
    {} && ret=0
  case $state in
    command)
      local -a commands=(
{}      )
      _describe -t commands command commands && ret=0
      ;;
    arguments)
      case $line[1] in
{}      esac
      ;;
  esac
  return ret
}}

)",
                             name, fmt::join(specs, " \\\n    "), parts, cases);
}

}  // namespace

std::string zsh_completion(const CommandEntry& program) {
  return "#compdef dtrain\n# zsh completion for dtrain; made by `dtrain completion zsh`\n\n" + function(program) +
         "if [[ $funcstack[1] == _dtrain ]]; then\n  _dtrain \"$@\"\nelse\n  compdef _dtrain dtrain\nfi\n";
}

}  // namespace dtrain::cmd
