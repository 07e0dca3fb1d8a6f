// When what a program makes for its parameters is final: the gradient of a trainable one, the next value of a
// statistic. A gradient may be made in pieces, each by an op of its own, so that a piece can be used (sent, or applied
// while it is in the cache) before the next one is made.
#pragma once

#include <vector>

#include "graph/program.h"

namespace dtrain::graph {

struct PlanStep;

struct Readiness {
  // For each step of the plan, the values of kind kParameterOut that are final after it, in ascending order: they are
  // written, and nothing later in the plan reads the parameter's value, which may be overwritten now.
  std::vector<std::vector<ValueId>> after;
  // For each step, the parameters that it is the first to read, ascending.
  std::vector<std::vector<ParameterIndex>> before;
};

// `steps` and `program` as in a plan.
Readiness find_readiness(const std::vector<PlanStep>& steps, const Program& program);

}  // namespace dtrain::graph
