// Takes out of a program what nothing depends on: nodes that write only temporaries which no other node reads. So a
// layer may emit its whole backward pass without asking which of its gradients are wanted.
#pragma once

#include "graph/program.h"

namespace dtrain::graph {

void drop_dead_nodes(Program& program);

}  // namespace dtrain::graph
