// The part of a plan that one of several tasks computes, a stage, and the values that it and the others give each
// other.
//
// What is cut is the plan of the whole network, not the network: so fused ops, layouts and kernels are those of the
// unsplit run, and the bits are too. Every task makes the same plan and cuts its own part out of it; a value has the
// same number on all of them. A value that crosses the cut does so in the layout that its producer gave it. Reorders
// are part of every stage that reads what they make.
#pragma once

#include <vector>

#include "graph/plan.h"
#include "graph/split.h"

namespace dtrain::graph {

struct Stage {
  // A value that another task makes. It lies with the caller: Feed::imports.
  struct Import {
    ValueId value = kNoValue;
    int from = 0;  // task
    size_t bytes = 0;
  };
  // A value that others read. It is final after step `after`, and later steps may overwrite it.
  struct Export {
    ValueId value = kNoValue;
    std::vector<int> to;  // tasks, ascending
    size_t bytes = 0;
    int after = 0;
  };
  // Steps [first, last) that run in one go when these imports, and those of the segments before, are there.
  struct Segment {
    int first = 0, last = 0;
    std::vector<int> imports;  // indices of `imports`
  };

  std::vector<Import> imports;  // by value
  std::vector<Export> exports;  // by `after`
  std::vector<Segment> segments;
  int forward_steps = 0;  // steps that do not depend on the loss, and the loss itself
  bool reads_sample = false, reads_labels = false, has_loss = false;
};

// Leaves in `plan` (steps without places yet) what `task` computes. Without a split everything, in one segment.
Stage cut_stage(Plan& plan, const Split* split, int task);

}  // namespace dtrain::graph
