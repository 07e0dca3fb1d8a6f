// The last part of planning: where each value of a plan lies, from when it is written to when it is last read.
#pragma once

#include "graph/plan.h"

namespace dtrain::graph {

// Fills plan.places and the three sizes. An output takes over an input's memory where the kernel allows it and nobody
// reads that input later.
void assign_places(Plan& plan);

}  // namespace dtrain::graph
