#include "compress/method.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace dtrain::compress {

MethodRegistry& MethodRegistry::instance() {
  static MethodRegistry registry;
  return registry;
}

bool MethodRegistry::add(std::string name, Make make) {
  const auto at = std::ranges::lower_bound(makers_, name, {}, &std::pair<std::string, Make>::first);
  DTRAIN_CHECK(at == makers_.end() || at->first != name, "'{}' registered twice", name);
  makers_.insert(at, {std::move(name), make});
  return true;
}

std::vector<std::string> MethodRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, make] : makers_) names.push_back(name);
  return names;
}

MethodRegistry::Make MethodRegistry::find(const std::string& name) const {
  const auto at = std::ranges::find(makers_, name, &std::pair<std::string, Make>::first);
  return at == makers_.end() ? nullptr : at->second;
}

std::shared_ptr<const Method> read_method(const config::Value& value, const std::string& key,
                                          const MethodSetting& setting, config::Diagnostics& diagnostics) {
  if (!value.is_string() && !value.is_table()) {
    diagnostics.error(value.position(),
                      fmt::format("'{}' must be a name (as \"2bit\") or a table with a 'type', not {}", key,
                                  config::describe(value)));
    return nullptr;
  }
  config::Value table = value;
  if (value.is_string())
    table = config::Value(config::Value::Table{{"type", value, value.position()}}, value.position());
  config::TableReader reader(table, diagnostics, fmt::format("[{}]", key));
  const size_t errors = diagnostics.errors().size();
  std::vector<std::string> known = MethodRegistry::instance().names();
  known.insert(known.begin(), "none");
  const std::string name = reader.require_choice("type", known);
  if (diagnostics.errors().size() > errors) return nullptr;  // its keys are those of who knows which type
  std::shared_ptr<const Method> method;
  if (name != "none") method = MethodRegistry::instance().find(name)(reader, setting);
  reader.finish();
  return diagnostics.errors().size() > errors ? nullptr : method;
}

}  // namespace dtrain::compress
