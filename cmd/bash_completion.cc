#include <fmt/format.h>
#include <fmt/ranges.h>

#include "completion_script.h"

namespace dtrain::cmd {
namespace {

// Looks up where on the line the cursor is. Bash cuts words at '=', so that --out=DIR is three of them.
constexpr const char* kScript = R"bash(
# COMPREPLY of what begins with $1 and is of kind $2: a file, a run file, a folder, or one of the words that follow.
_dtrain_reply() {
  local begun=$1 kind=${2:-} found line
  shift "$(($# > 1 ? 2 : 1))"
  COMPREPLY=()
  case $kind in
    file) found=$(compgen -f -- "$begun") ;;
    run) found=$(compgen -f -X '!*.toml' -- "$begun"; compgen -d -- "$begun") ;;
    folder) found=$(compgen -d -- "$begun") ;;
    words) found=$(compgen -W "$*" -- "$begun") ;;
    *) return ;;
  esac
  while IFS= read -r line; do [ -z "$line" ] || COMPREPLY+=("$line"); done <<< "$found"
  # Of files the shell quotes what needs it, and completes what is quoted already by itself.
  [ "$kind" = words ] || compopt -o filenames -o default 2>/dev/null
}

_dtrain() {
  local command="" awaited="" argument=0 word i parts flags dashed value
  local cursor=${COMP_WORDS[COMP_CWORD]}
  _dtrain_command ""
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == "=" || $word == --*=* ]]; then
      continue
    elif [ -n "$awaited" ]; then
      awaited=""
    elif [[ $word == -* ]]; then
      _dtrain_value "$command" "$word"
      awaited=$value
    elif [[ " $parts " == *" $word "* ]]; then
      command="${command:+$command }$word"
      _dtrain_command "$command"
    else
      argument=$((argument + 1))
    fi
  done
  # A kind may be followed by its words: not quoted.
  if [ -n "$awaited" ]; then
    [ "$cursor" != "=" ] || cursor=""
    _dtrain_reply "$cursor" $awaited
  elif [[ $cursor == --*=* ]]; then
    _dtrain_value "$command" "${cursor%%=*}"
    _dtrain_reply "${cursor#*=}" $value
    COMPREPLY=("${COMPREPLY[@]/#/${cursor%%=*}=}")
  elif [[ $cursor == -* ]]; then
    _dtrain_reply "$cursor" words "$flags"
    # The other spelling is for who has begun with it.
    [ ${#COMPREPLY[@]} -gt 0 ] || _dtrain_reply "$cursor" words "$dashed"
  elif [ -n "$parts" ]; then
    _dtrain_reply "$cursor" words "$parts"
  else
    _dtrain_argument "$command" "$argument"
    _dtrain_reply "$cursor" $value
  fi
}

complete -F _dtrain dtrain
)bash";

std::string kind(Value value, const std::vector<std::string>& choices) {
  switch (value) {
    case Value::kNothing:
      return "";
    case Value::kText:
      return "text";
    case Value::kFile:
      return "file";
    case Value::kRunFile:
      return "run";
    case Value::kFolder:
      return "folder";
    case Value::kChoice:
      return fmt::format("words {}", fmt::join(choices, " "));
  }
  return "";
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// One line for each command in each of the three functions.
struct Lines {
  std::string commands, values, arguments;
};

void add(const CommandEntry& command, Lines& lines) {
  const std::string path = joined(command.path);
  std::vector<std::string> parts, flags, dashed;
  for (const CommandEntry& part : command.parts) parts.push_back(part.path.back());
  for (const FlagEntry& flag : command.flags) {
    flags.insert(flags.end(), flag.names.begin(), flag.names.end());
    dashed.insert(dashed.end(), flag.dashed.begin(), flag.dashed.end());
    if (flag.value == Value::kNothing) continue;
    std::string patterns;
    for (const auto* names : {&flag.names, &flag.dashed})
      for (const std::string& name : *names)
        patterns += fmt::format("{}\"{} {}\"", patterns.empty() ? "" : " | ", path, name);
    lines.values += fmt::format("    {}) value=\"{}\" ;;\n", patterns, kind(flag.value, flag.choices));
  }
  lines.commands += fmt::format("    \"{}\") parts=\"{}\" flags=\"{}\" dashed=\"{}\" ;;\n", path, joined(parts),
                                joined(flags), joined(dashed));
  for (size_t i = 0; i < command.arguments.size(); ++i)
    lines.arguments += fmt::format("    \"{} {}\"{}) value=\"{}\" ;;\n", path,
                                   command.arguments[i].repeatable ? "" : fmt::format("{}", i),
                                   command.arguments[i].repeatable ? "*" : "", kind(command.arguments[i].value, {}));
  for (const CommandEntry& part : command.parts) add(part, lines);
}

}  // namespace

std::string bash_completion(const CommandEntry& program) {
  Lines lines;
  add(program, lines);
  auto function = [](const std::string& comment, const std::string& name, const std::string& start,
                     const std::string& cases) {
    return fmt::format("\n# {}\n{}() {{\n  {}\n  case \"{}\" in\n{}  esac\n}}\n", comment, name, start,
                       name == "_dtrain_command" ? "$1" : "$1 $2", cases);
  };
  return "# bash completion for dtrain; made by `dtrain completion bash`\n" +
         function("What follows the command $1.", "_dtrain_command", "parts=\"\" flags=\"\" dashed=\"\"",
                  lines.commands) +
         function("What the flag $2 of the command $1 takes; empty: nothing.", "_dtrain_value", "value=\"\"",
                  lines.values) +
         function("What argument number $2 of the command $1 is.", "_dtrain_argument", "value=\"\"", lines.arguments) +
         kScript;
}

}  // namespace dtrain::cmd
