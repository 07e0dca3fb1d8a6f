// The commands, their parts, flags and arguments, read from what they declared to the parser: of this a shell's
// completion is made, so that it cannot differ from what the program takes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dtrain::cmd {

// What a shell can offer in some place.
enum class Value { kNothing, kText, kFile, kRunFile, kFolder, kChoice };

struct FlagEntry {
  std::vector<std::string> names;   // "--task_id", "--task_index": as the program spells them
  std::vector<std::string> dashed;  // the same with '-' for '_', where that is another word
  std::string text;
  Value value = Value::kNothing;  // kNothing: it takes none
  std::string value_name;         // "FILE"
  std::vector<std::string> choices;
  bool repeatable = false;
};

struct ArgumentEntry {
  std::string name;
  Value value = Value::kText;
  bool repeatable = false;
};

struct CommandEntry {
  std::vector<std::string> path;  // {"benchmark", "step"}; of the program itself empty
  std::string text;
  std::vector<FlagEntry> flags;
  std::vector<ArgumentEntry> arguments;
  std::vector<CommandEntry> parts;
};

// Hidden commands and flags are left out.
CommandEntry command_tree(const CLI::App& app);

}  // namespace dtrain::cmd
