// A program with a kernel for every op, a layout and a place for every value. Made once by make_plan(), then only read
// (the kernels run through it).
//
// A value keeps the layout that its producer gave it; where a kernel wants another, a reorder is put before it, and
// shared by all later readers. A reordered parameter is kept from run to run, until the parameter changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/program.h"
#include "graph/readiness.h"
#include "ops/op.h"

namespace dtrain::graph {

struct PlanStep {
  std::string op;
  std::unique_ptr<ops::Kernel> kernel;
  std::vector<ValueId> inputs, outputs;
  int layer = -1;
  int copy = -1;  // of a step that fills a parameter's copy: its index in Plan::copies
};

struct Plan {
  enum class Space : uint8_t { kArena, kPersistent, kCaller };
  struct Place {
    Space space = Space::kArena;
    size_t offset = 0;
  };
  struct Copy {
    ParameterIndex parameter;
    ValueId value;
  };

  std::vector<PlanStep> steps;
  Program program;                     // values only: the program's, and those that reorders made
  std::vector<ops::TensorDesc> descs;  // of each value
  std::vector<Place> places;           // of each value; views have their root's
  std::vector<Copy> copies;
  Readiness readiness;
  size_t arena_bytes = 0, scratch_bytes = 0, persistent_bytes = 0;
};

// `compute`: what the factors of products are rounded to (ops/op.h).
Result<Plan> make_plan(Program program, const std::string& backend, DType compute = DType::kF32);

// The same in two parts, between which a stage may be cut out (graph/stage.h): kernels and layouts, then readiness and
// places.
Result<Plan> plan_steps(Program program, const std::string& backend, DType compute);
void place_values(Plan& plan);

}  // namespace dtrain::graph
