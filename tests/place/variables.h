// An environment for tests.
#pragma once

#include <map>
#include <string>

#include "cluster/place/environment.h"

namespace dtrain::cluster {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
}

// The same with some of them changed; an empty value is none.
inline Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

}  // namespace dtrain::cluster
