// The types of one extensible kind, by name. Each type registers itself from its own file before main; read-only after
// that. A type's maker reads its keys from the table that names it; mistakes go to the reader's diagnostics, and what
// it returns is usable only if there are none. Args is what else makers are given.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "config/table_reader.h"

namespace dtrain::config {

template <typename Product, typename... Args>
class Registry {
 public:
  using Make = std::unique_ptr<Product> (*)(TableReader& reader, Args... args);

  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  bool add(std::string name, Make make) {
    const auto at = find(name);
    DTRAIN_CHECK(at == makers_.end() || at->first != name, "'{}' registered twice", name);
    makers_.insert(at, {std::move(name), make});
    return true;
  }

  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> names;
    for (const auto& [name, make] : makers_) names.push_back(name);
    return names;
  }

  // Reads the key `type`, then the keys of that type. An unknown type is reported, with the nearest known one, and read
  // as the default; the keys that it has are then not reported as unknown.
  std::unique_ptr<Product> read(TableReader& reader, const std::string& standard, Args... args) const {
    const std::string name = reader.choice("type", standard, names());
    const auto at = find(name);
    DTRAIN_CHECK(at != makers_.end() && at->first == name, "'{}' is not registered", name);
    return at->second(reader, args...);
  }

 private:
  auto find(const std::string& name) const {
    return std::lower_bound(makers_.begin(), makers_.end(), name,
                            [](const auto& entry, const std::string& key) { return entry.first < key; });
  }

  std::vector<std::pair<std::string, Make>> makers_;  // sorted by name
};

}  // namespace dtrain::config
