#include "graph/layer_registry.h"

#include <algorithm>

#include "base/check.h"

namespace dtrain::graph {

LayerRegistry& LayerRegistry::instance() {
  static LayerRegistry registry;
  return registry;
}

void LayerRegistry::add(std::string type, Make make) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), type,
                                   [](const Entry& e, const std::string& t) { return e.type < t; });
  DTRAIN_CHECK(at == entries_.end() || at->type != type, "layer type {} registered twice", type);
  entries_.insert(at, {std::move(type), make});
}

std::unique_ptr<Layer> LayerRegistry::make(const std::string& type) const {
  for (const Entry& e : entries_)
    if (e.type == type) return e.make();
  return nullptr;
}

std::vector<std::string> LayerRegistry::types() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_) names.push_back(e.type);
  return names;
}

}  // namespace dtrain::graph
