// Which layer types there are. Filled by static registration, one file a type; read-only after start-up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/layer.h"

namespace dtrain::graph {

class LayerRegistry {
 public:
  using Make = std::unique_ptr<Layer> (*)();

  static LayerRegistry& instance();
  void add(std::string type, Make make);
  std::unique_ptr<Layer> make(const std::string& type) const;  // null where the type is unknown
  std::vector<std::string> types() const;                      // sorted

 private:
  struct Entry {
    std::string type;
    Make make;
  };
  std::vector<Entry> entries_;  // by type
};

// static const LayerRegistration<Conv2dLayer> r("conv2d");
template <typename L>
struct LayerRegistration {
  explicit LayerRegistration(std::string type) {
    LayerRegistry::instance().add(std::move(type), [] { return std::unique_ptr<Layer>(std::make_unique<L>()); });
  }
};

}  // namespace dtrain::graph
