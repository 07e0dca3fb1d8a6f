#include "graph/dead_nodes.h"

#include <algorithm>

namespace dtrain::graph {

void drop_dead_nodes(Program& program) {
  std::vector<bool> read(program.values.size(), false);
  const auto root = [&](ValueId v) { return static_cast<size_t>(program.root(v)); };
  const auto wanted = [&](ValueId v) { return read[root(v)] || program.values[root(v)].kind != ValueKind::kTemporary; };
  std::vector<Node> kept;
  for (size_t n = program.nodes.size(); n-- > 0;) {
    Node& node = program.nodes[n];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), wanted)) continue;
    for (ValueId v : node.inputs) read[root(v)] = true;
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  program.nodes = std::move(kept);
}

}  // namespace dtrain::graph
