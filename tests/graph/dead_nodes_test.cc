#include "graph/dead_nodes.h"

#include <gtest/gtest.h>

namespace dtrain::graph {
namespace {

TEST(DeadNodes, WhatLeadsToNothingGoes) {
  Program p;
  const auto value = [&](ValueKind kind) { return p.add({.shape = {2}, .kind = kind}); };
  const ValueId x = value(ValueKind::kSample), a = value(ValueKind::kTemporary), b = value(ValueKind::kTemporary),
                c = value(ValueKind::kTemporary), d = value(ValueKind::kTemporary),
                out = value(ValueKind::kParameterOut), metrics = value(ValueKind::kMetrics);
  const ValueId view = p.add({.shape = {2, 1}, .view_of = a});
  p.nodes = {{"makes what a view is read of", {}, {x}, {a}},
             {"read by a dead one only", {}, {x}, {c}},
             {"read by nobody", {}, {c}, {d}},
             {"one of two is read", {}, {view}, {b, d}},
             {"gradient", {}, {b}, {out}},
             {"loss", {}, {x}, {metrics}}};
  drop_dead_nodes(p);
  std::vector<std::string> left;
  for (const Node& n : p.nodes) left.push_back(n.op);
  EXPECT_EQ(left, (std::vector<std::string>{"makes what a view is read of", "one of two is read", "gradient", "loss"}));
}

}  // namespace
}  // namespace dtrain::graph
