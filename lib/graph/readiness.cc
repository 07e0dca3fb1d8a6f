#include "graph/readiness.h"

#include <algorithm>

#include "graph/plan.h"

namespace dtrain::graph {
namespace {

bool is_parameter(const Value& value) {
  return value.kind == ValueKind::kParameter || value.kind == ValueKind::kParameterCopy;
}

size_t parameters(const Program& program) {
  ParameterIndex largest = -1;
  for (const Value& v : program.values) largest = std::max(largest, v.parameter);
  return static_cast<size_t>(largest + 1);
}

}  // namespace

Readiness find_readiness(const std::vector<PlanStep>& steps, const Program& program) {
  Readiness result;
  result.after.resize(steps.size());
  result.before.resize(steps.size());
  constexpr size_t kNever = SIZE_MAX;
  std::vector<size_t> first_read(parameters(program), kNever), last_read(parameters(program), 0);
  for (size_t s = 0; s < steps.size(); ++s)
    for (ValueId v : steps[s].inputs) {
      const Value& value = program.at(program.root(v));
      if (!is_parameter(value)) continue;
      const auto p = static_cast<size_t>(value.parameter);
      if (first_read[p] == kNever) first_read[p] = s;
      last_read[p] = s;
    }
  for (size_t p = 0; p < first_read.size(); ++p)
    if (first_read[p] != kNever) result.before[first_read[p]].push_back(static_cast<ParameterIndex>(p));
  for (size_t s = 0; s < steps.size(); ++s)
    for (ValueId v : steps[s].outputs) {
      const Value& value = program.at(v);
      if (value.kind != ValueKind::kParameterOut) continue;
      result.after[std::max(s, last_read[static_cast<size_t>(value.parameter)])].push_back(v);
    }
  for (auto& values : result.after) std::sort(values.begin(), values.end());
  return result;
}

}  // namespace dtrain::graph
