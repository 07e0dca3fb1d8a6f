// Reading a configuration: a file, the files that it includes, and what the command line sets on top.
//
//   include = ["network.toml"]      relative to the file that says so; only at the top level
//
// The including file wins over what it includes, later includes over earlier ones; tables merge, everything else
// replaces. train.steps and train.epochs are alternatives: setting one in a higher layer takes the other of a lower one
// away.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/value.h"

namespace dtrain::config {

// The bytes of a file; its error says why not, without the path.
using ReadFile = std::function<Result<std::string>(const std::string& path)>;

Result<std::string> read_file_from_disk(const std::string& path);

// `overrides` are "a.b.c=value" in order, where value is a TOML value or a bare word, which is a string.
// Errors are kUsage and name file, line and column.
Result<Value> load_file(const std::string& path, std::span<const std::string> overrides = {},
                        const ReadFile& read = read_file_from_disk);

// The same for text that lies in memory; what it includes is read as if the text were the file `file`.
Result<Value> load_text(std::string_view text, const std::string& file = "run.toml",
                        std::span<const std::string> overrides = {}, const ReadFile& read = read_file_from_disk);

// `path` as seen from the file at `position`: an absolute path and one from the command line stay as they are.
std::string resolve_path(const std::string& path, const Position& position);

}  // namespace dtrain::config
