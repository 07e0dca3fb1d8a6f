// Collects the mistakes of a configuration, so that a user sees all of them at once rather than one a run. Readers go
// on with usable values after an error; whoever started the reading asks for status() at the end. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/position.h"

namespace dtrain::config {

struct Diagnostic {
  Position position;
  std::string message;
  ExitCode code = ExitCode::kUsage;
};

class Diagnostics {
 public:
  // At most `limit` errors are kept; the rest is only counted.
  explicit Diagnostics(int limit = 20) : limit_(limit) {}

  // The same message at the same place (a layer of a block that is used ten times) is kept once.
  void error(const Position& position, std::string message, ExitCode code = ExitCode::kUsage);

  bool ok() const { return kept_.empty(); }
  // More errors would only be counted: a reader may stop looking for them.
  bool full() const { return static_cast<int>(kept_.size()) >= limit_; }
  const std::vector<Diagnostic>& errors() const { return kept_; }

  // One line an error, "run.toml:12:3: error: …", in the order of the files and of the places in them. The exit code is
  // kUsage as soon as one error has it.
  Status status() const;

 private:
  int limit_;
  int left_out_ = 0;
  std::vector<Diagnostic> kept_;
};

}  // namespace dtrain::config
