// A configuration as a tree of values, each with the place where it was written. Tables keep the order of the source.
// A plain value type: copying copies the tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/position.h"

namespace dtrain::config {

struct Entry;

class Value {
 public:
  using Array = std::vector<Value>;
  using Table = std::vector<Entry>;  // no key twice

  Value();  // an empty table
  Value(Table table, Position position);
  Value(Array array, Position position);
  Value(std::string string, Position position);
  Value(int64_t integer, Position position);
  Value(double number, Position position);
  Value(bool boolean, Position position);

  bool is_table() const { return std::holds_alternative<Table>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_boolean() const { return std::holds_alternative<bool>(data_); }

  // REQUIRES: the value is of that kind.
  const Table& as_table() const { return std::get<Table>(data_); }
  const Array& as_array() const { return std::get<Array>(data_); }
  const std::string& as_string() const { return std::get<std::string>(data_); }
  int64_t as_integer() const { return std::get<int64_t>(data_); }
  double as_float() const { return std::get<double>(data_); }
  bool as_boolean() const { return std::get<bool>(data_); }
  Table& as_table() { return std::get<Table>(data_); }
  Array& as_array() { return std::get<Array>(data_); }

  const Position& position() const { return position_; }

  // The value of `key`; null where this is no table or has no such key.
  const Value* find(std::string_view key) const;
  // Of the value of `key`, or of this where it has none.
  const Position& position_of(std::string_view key) const;
  Value* find(std::string_view key);
  // Of a table: sets `key`, in its old place or at the end; removes it.
  void set(std::string_view key, Value value, Position key_position);
  void erase(std::string_view key);

 private:
  std::variant<Table, Array, std::string, int64_t, double, bool> data_;
  Position position_;
};

struct Entry {
  std::string key;
  Value value;
  Position key_position;
};

// For messages: `an integer`, `a string "five"`, `a table`.
std::string describe(const Value& value);

}  // namespace dtrain::config
