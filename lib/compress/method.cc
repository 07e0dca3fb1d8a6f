#include "compress/method.h"

#include <fmt/format.h>

namespace dtrain::compress {

namespace {

[[maybe_unused]] const bool registered = MethodRegistry::instance().add(
    "none", [](config::TableReader&, const MethodSetting&) -> std::unique_ptr<Method> { return nullptr; });

}  // namespace

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
  if (!reader.has("type")) reader.error("", fmt::format("[{}] needs a 'type', as \"2bit\"", key));
  std::shared_ptr<const Method> method = MethodRegistry::instance().read(reader, "none", setting);
  if (diagnostics.errors().size() > errors) return nullptr;  // unknown keys are those of who knows which type
  reader.finish();
  return diagnostics.errors().size() > errors ? nullptr : method;
}

}  // namespace dtrain::compress
