#include "config/value.h"

#include <fmt/format.h>

#include <utility>

namespace dtrain::config {

Value::Value() : data_(Table{}) {}
Value::Value(Table table, Position position) : data_(std::move(table)), position_(std::move(position)) {}
Value::Value(Array array, Position position) : data_(std::move(array)), position_(std::move(position)) {}
Value::Value(std::string string, Position position) : data_(std::move(string)), position_(std::move(position)) {}
Value::Value(int64_t integer, Position position) : data_(integer), position_(std::move(position)) {}
Value::Value(double number, Position position) : data_(number), position_(std::move(position)) {}
Value::Value(bool boolean, Position position) : data_(boolean), position_(std::move(position)) {}

const Value* Value::find(std::string_view key) const {
  if (!is_table()) return nullptr;
  for (const Entry& e : as_table()) {
    if (e.key == key) return &e.value;
  }
  return nullptr;
}

const Position& Value::position_of(std::string_view key) const {
  const Value* const value = find(key);
  return value ? value->position() : position_;
}

Value* Value::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

void Value::set(std::string_view key, Value value, Position key_position) {
  for (Entry& e : as_table()) {
    if (e.key == key) {
      e.value = std::move(value);
      e.key_position = std::move(key_position);
      return;
    }
  }
  as_table().push_back({std::string(key), std::move(value), std::move(key_position)});
}

void Value::erase(std::string_view key) {
  std::erase_if(as_table(), [key](const Entry& e) { return e.key == key; });
}

std::string describe(const Value& value) {
  if (value.is_table()) return "a table";
  if (value.is_array()) return value.as_array().empty() ? "an empty list" : "a list";
  if (value.is_integer()) return fmt::format("the integer {}", value.as_integer());
  if (value.is_float()) return fmt::format("the number {}", value.as_float());
  if (value.is_boolean()) return value.as_boolean() ? "true" : "false";
  constexpr size_t kShown = 60;
  const std::string& s = value.as_string();
  return s.size() <= kShown ? fmt::format("a string \"{}\"", s) : fmt::format("a string of {} bytes", s.size());
}

}  // namespace dtrain::config
