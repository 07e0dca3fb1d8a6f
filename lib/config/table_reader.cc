#include "config/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/nearest.h"
#include "config/load.h"

namespace dtrain::config {
namespace {

template <typename T>
std::string range_text(T min, T max, T lowest, T highest) {
  if (max == highest) return fmt::format("at least {}", min);
  if (min == lowest) return fmt::format("at most {}", max);
  return fmt::format("from {} to {}", min, max);
}

// A value that keeps later arithmetic on it harmless.
int64_t usable(int64_t min, int64_t max) { return std::clamp<int64_t>(1, min, max); }

}  // namespace

TableReader::TableReader(const Value& table, Diagnostics& diagnostics, std::string what)
    : table_(table), diagnostics_(diagnostics), what_(std::move(what)) {
  if (!table.is_table()) {
    diagnostics_.error(table.position(), fmt::format("{}: expected a table, got {}", what_, describe(table)));
  }
}

Position TableReader::position_of(std::string_view key) const {
  const Value* v = table_.find(key);
  return v ? v->position() : table_.position();
}

void TableReader::error(std::string_view key, std::string message, ExitCode code) {
  diagnostics_.error(position_of(key), std::move(message), code);
}

const Value* TableReader::known(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  return table_.find(key);
}

const Value* TableReader::required(std::string_view key) {
  const Value* v = known(key);
  if (!v && table_.is_table()) diagnostics_.error(table_.position(), fmt::format("{} needs '{}'", what_, key));
  return v;
}

void TableReader::wrong_type(std::string_view key, std::string_view expected, const Value& got) {
  diagnostics_.error(got.position(),
                     fmt::format("'{}' in {}: expected {}, got {}", key, what_, expected, describe(got)));
}

std::optional<int64_t> TableReader::read_integer(std::string_view key, const Value& v, int64_t min, int64_t max,
                                                 std::string_view expected) {
  if (!v.is_integer()) {
    wrong_type(key, expected, v);
    return std::nullopt;
  }
  const int64_t i = v.as_integer();
  if (i >= min && i <= max) return i;
  diagnostics_.error(v.position(), fmt::format("'{}' in {} must be {}, got {}", key, what_,
                                               range_text(min, max, kMinInt, kMaxInt), i));
  return std::nullopt;
}

std::optional<double> TableReader::read_number(std::string_view key, const Value& v, double min, double max) {
  if (!v.is_integer() && !v.is_float()) {
    wrong_type(key, "a number", v);
    return std::nullopt;
  }
  const double x = v.is_integer() ? static_cast<double>(v.as_integer()) : v.as_float();
  if (std::isfinite(x) && x >= min && x <= max) return x;
  const std::string wanted =
      std::isfinite(x) ? range_text(min, max, -kMaxNumber, kMaxNumber) : std::string("a finite number");
  diagnostics_.error(v.position(), fmt::format("'{}' in {} must be {}, got {}", key, what_, wanted, x));
  return std::nullopt;
}

std::optional<std::string> TableReader::read_string(std::string_view key, const Value& v) {
  if (v.is_string()) return v.as_string();
  wrong_type(key, "a string", v);
  return std::nullopt;
}

std::optional<std::string> TableReader::read_choice(std::string_view key, const Value& v,
                                                    std::span<const std::string> known) {
  std::optional<std::string> s = read_string(key, v);
  if (!s || std::find(known.begin(), known.end(), *s) != known.end()) return s;
  diagnostics_.error(v.position(),
                     fmt::format("'{}' in {}: unknown value '{}'{}", key, what_, *s, suggestion(*s, known)));
  return std::nullopt;
}

std::optional<std::vector<int64_t>> TableReader::read_integers(std::string_view key, const Value& v, int64_t min,
                                                               int64_t max) {
  if (!v.is_array()) {
    wrong_type(key, "a list of integers", v);
    return std::nullopt;
  }
  std::vector<int64_t> list;
  for (const Value& item : v.as_array()) {
    std::optional<int64_t> i = read_integer(key, item, min, max, "integers in the list");
    if (!i) return std::nullopt;
    list.push_back(*i);
  }
  return list;
}

std::optional<Pair> TableReader::read_pair(std::string_view key, const Value& v, int64_t min, int64_t max) {
  if (!v.is_array()) {
    std::optional<int64_t> i = read_integer(key, v, min, max, "an integer or a list of two");
    return i ? std::optional(Pair{*i, *i}) : std::nullopt;
  }
  if (v.as_array().size() != 2) {
    diagnostics_.error(v.position(), fmt::format("'{}' in {}: expected an integer or a list of two, got a list of {}",
                                                 key, what_, v.as_array().size()));
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> two = read_integers(key, v, min, max);
  return two ? std::optional(Pair{(*two)[0], (*two)[1]}) : std::nullopt;
}

std::optional<std::string> TableReader::read_path(std::string_view key, const Value& v) {
  std::optional<std::string> s = read_string(key, v);
  if (!s) return std::nullopt;
  if (s->empty() || s->find('\0') != std::string::npos) {
    diagnostics_.error(v.position(), fmt::format("'{}' in {}: expected the name of a file", key, what_));
    return std::nullopt;
  }
  paths_.push_back({resolve_path(*s, v.position()), v.position()});
  return paths_.back().path;
}

int64_t TableReader::integer(std::string_view key, int64_t standard, int64_t min, int64_t max) {
  const Value* v = known(key);
  return v ? read_integer(key, *v, min, max).value_or(standard) : standard;
}

int64_t TableReader::require_integer(std::string_view key, int64_t min, int64_t max) {
  const Value* v = required(key);
  return v ? read_integer(key, *v, min, max).value_or(usable(min, max)) : usable(min, max);
}

std::optional<int64_t> TableReader::integer_or_auto(std::string_view key, int64_t min, int64_t max) {
  const Value* v = known(key);
  if (!v || is_word(key, "auto")) return std::nullopt;
  return read_integer(key, *v, min, max, "an integer or \"auto\"");
}

double TableReader::number(std::string_view key, double standard, double min, double max) {
  const Value* v = known(key);
  return v ? read_number(key, *v, min, max).value_or(standard) : standard;
}

double TableReader::require_number(std::string_view key, double min, double max) {
  const Value* v = required(key);
  const double fallback = std::clamp(1.0, min, max);
  return v ? read_number(key, *v, min, max).value_or(fallback) : fallback;
}

double TableReader::positive_number(std::string_view key, double standard) {
  const double x = number(key, standard);
  if (x > 0) return x;
  error(key, fmt::format("'{}' in {} must be above 0, got {}", key, what_, x));
  return standard;
}

bool TableReader::boolean(std::string_view key, bool standard) {
  const Value* v = known(key);
  if (!v) return standard;
  if (v->is_boolean()) return v->as_boolean();
  wrong_type(key, "true or false", *v);
  return standard;
}

std::string TableReader::string(std::string_view key, std::string standard) {
  const Value* v = known(key);
  return v ? read_string(key, *v).value_or(std::move(standard)) : standard;
}

std::string TableReader::require_string(std::string_view key) {
  const Value* v = required(key);
  return v ? read_string(key, *v).value_or("") : "";
}

std::string TableReader::choice(std::string_view key, std::string standard, std::span<const std::string> choices) {
  const Value* v = known(key);
  return v ? read_choice(key, *v, choices).value_or(std::move(standard)) : standard;
}

std::string TableReader::require_choice(std::string_view key, std::span<const std::string> choices) {
  const Value* v = required(key);
  const std::string fallback = choices.empty() ? "" : choices.front();
  return v ? read_choice(key, *v, choices).value_or(fallback) : fallback;
}

bool TableReader::is_word(std::string_view key, std::string_view word) {
  const Value* v = known(key);
  return v && v->is_string() && v->as_string() == word;
}

std::vector<int64_t> TableReader::integers(std::string_view key, std::vector<int64_t> standard, int64_t min,
                                           int64_t max) {
  const Value* v = known(key);
  return v ? read_integers(key, *v, min, max).value_or(std::move(standard)) : standard;
}

std::vector<int64_t> TableReader::require_integers(std::string_view key, int64_t min, int64_t max) {
  const Value* v = required(key);
  return v ? read_integers(key, *v, min, max).value_or(std::vector<int64_t>{}) : std::vector<int64_t>{};
}

std::vector<double> TableReader::numbers(std::string_view key, std::vector<double> standard, double min, double max) {
  const Value* v = known(key);
  if (!v) return standard;
  if (!v->is_array()) {
    wrong_type(key, "a list of numbers", *v);
    return standard;
  }
  std::vector<double> list;
  for (const Value& item : v->as_array()) {
    std::optional<double> x = read_number(key, item, min, max);
    if (!x) return standard;
    list.push_back(*x);
  }
  return list;
}

std::vector<std::string> TableReader::strings(std::string_view key, std::vector<std::string> standard) {
  const Value* v = known(key);
  if (!v) return standard;
  if (!v->is_array()) {
    wrong_type(key, "a list of strings", *v);
    return standard;
  }
  std::vector<std::string> list;
  for (const Value& item : v->as_array()) {
    std::optional<std::string> s = read_string(key, item);
    if (!s) return standard;
    list.push_back(std::move(*s));
  }
  return list;
}

Pair TableReader::pair(std::string_view key, Pair standard, int64_t min, int64_t max) {
  const Value* v = known(key);
  return v ? read_pair(key, *v, min, max).value_or(standard) : standard;
}

Pair TableReader::require_pair(std::string_view key, int64_t min, int64_t max) {
  const Value* v = required(key);
  const Pair fallback{usable(min, max), usable(min, max)};
  return v ? read_pair(key, *v, min, max).value_or(fallback) : fallback;
}

std::string TableReader::path(std::string_view key, std::string standard) {
  const Value* v = known(key);
  return v ? read_path(key, *v).value_or(std::move(standard)) : standard;
}

std::string TableReader::require_path(std::string_view key) {
  const Value* v = required(key);
  return v ? read_path(key, *v).value_or("") : "";
}

std::vector<std::string> TableReader::require_paths(std::string_view key) {
  const Value* v = required(key);
  if (!v) return {};
  const std::span<const Value> items = v->is_array() ? std::span(v->as_array()) : std::span(v, 1);
  if (items.empty()) diagnostics_.error(v->position(), fmt::format("'{}' in {}: the list is empty", key, what_));
  std::vector<std::string> paths;
  for (const Value& item : items) {
    std::optional<std::string> path = read_path(key, item);
    if (!path) return {};
    paths.push_back(std::move(*path));
  }
  return paths;
}

const Value* TableReader::value(std::string_view key) { return known(key); }

const Value* TableReader::table(std::string_view key) {
  const Value* v = known(key);
  if (!v || v->is_table()) return v;
  wrong_type(key, "a table", *v);
  return nullptr;
}

const Value* TableReader::require_table(std::string_view key) { return required(key) ? table(key) : nullptr; }

const Value* TableReader::list(std::string_view key) {
  const Value* v = known(key);
  if (!v || v->is_array()) return v;
  wrong_type(key, "a list", *v);
  return nullptr;
}

void TableReader::finish() {
  if (!table_.is_table()) return;
  for (const Entry& e : table_.as_table()) {
    if (diagnostics_.full()) return;
    if (std::find(known_.begin(), known_.end(), e.key) != known_.end()) continue;
    diagnostics_.error(e.key_position,
                       fmt::format("unknown key '{}' in {}{}", e.key, what_, suggestion(e.key, known_)));
  }
}

}  // namespace dtrain::config
