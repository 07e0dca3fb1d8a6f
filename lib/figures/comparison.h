// A benchmark beside an earlier one: what became faster, what slower, and where the spread of the rounds does not let
// anybody say so. Values.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "figures/report.h"

namespace dtrain::figures {

enum class Change {
  kFaster,
  kSlower,
  kNone,     // the ranges from one quartile to the other overlap
  kUnknown,  // too few rounds on one side to know their spread
  kNew,      // the earlier one has no such figure
};

const char* to_string(Change change);  // "faster", …, for people and for the JSON

struct Difference {
  std::string name, text, unit;
  double then = 0, now = 0;  // medians; `then` is 0 of what is new
  Change change = Change::kNone;

  double ratio() const { return then == 0 ? 0 : now / then; }
};

// Fewer rounds than this have no quartiles to speak of.
constexpr int kLeastRounds = 4;

struct Comparison {
  std::vector<Difference> differences;  // in the order of the later report
  std::vector<std::string> notes;       // other machine, other settings, figures that are no more
};

// Errors (kUsage) where the earlier report, from `file`, is of another part or another run file (whatever folder that
// lies in).
Result<Comparison> compare(const Report& now, const Report& then, const std::string& file);

std::string to_text(const Comparison& comparison);
// [{"name", "then", "now", "ratio", "change"}]
std::string to_json(const Comparison& comparison);

}  // namespace dtrain::figures
