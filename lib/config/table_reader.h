// Reads one table of a configuration key by key: typed, with defaults and ranges. Mistakes go to Diagnostics with their
// places, and every getter returns a usable value even then, so that reading goes on. The keys that were asked for are
// the keys that are known; finish() reports the others. Borrows the table and the diagnostics. Not thread-safe.
//
//   TableReader reader(layer.table, diagnostics, "layer 'conv1' (conv2d)");
//   const int64_t filters = reader.require_integer("filters", 1, kMaxInt);
//   const auto kernel = reader.require_pair("kernel", 1, kMaxInt);
//   const bool bias = reader.boolean("bias", true);
//   reader.finish();
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::config {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
constexpr double kMaxNumber = std::numeric_limits<double>::max();
using Pair = std::array<int64_t, 2>;

class TableReader {
 public:
  // `what` names the table in messages: "[train]". A value that is no table is an error and read as an empty one.
  TableReader(const Value& table, Diagnostics& diagnostics, std::string what);

  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  // Of the value; of the table where it is absent.
  Position position_of(std::string_view key) const;
  const Position& position() const { return table_.position(); }
  Diagnostics& diagnostics() { return diagnostics_; }
  // An error at the value of `key`, for rules that only the caller knows. The message should name the key.
  void error(std::string_view key, std::string message, ExitCode code = ExitCode::kUsage);

  // Ranges include their ends. An absent key gives the default; require_… reports it.
  int64_t integer(std::string_view key, int64_t standard, int64_t min = kMinInt, int64_t max = kMaxInt);
  int64_t require_integer(std::string_view key, int64_t min = kMinInt, int64_t max = kMaxInt);
  // Empty where absent or "auto".
  std::optional<int64_t> integer_or_auto(std::string_view key, int64_t min = kMinInt, int64_t max = kMaxInt);
  // Finite; an integer is a number too.
  double number(std::string_view key, double standard, double min = -kMaxNumber, double max = kMaxNumber);
  double require_number(std::string_view key, double min = -kMaxNumber, double max = kMaxNumber);
  double positive_number(std::string_view key, double standard);  // above 0
  bool boolean(std::string_view key, bool standard);
  std::string string(std::string_view key, std::string standard);
  std::string require_string(std::string_view key);
  // One of `known`.
  std::string choice(std::string_view key, std::string standard, std::span<const std::string> known);
  std::string require_choice(std::string_view key, std::span<const std::string> known);
  // True where `key` holds exactly the string `word`, as in pad = "same"; otherwise the caller reads it by its type.
  bool is_word(std::string_view key, std::string_view word);
  // A list of integers, of numbers, of strings.
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> standard = {}, int64_t min = kMinInt,
                                int64_t max = kMaxInt);
  std::vector<int64_t> require_integers(std::string_view key, int64_t min = kMinInt, int64_t max = kMaxInt);
  std::vector<double> numbers(std::string_view key, std::vector<double> standard = {}, double min = -kMaxNumber,
                              double max = kMaxNumber);
  std::vector<std::string> strings(std::string_view key, std::vector<std::string> standard = {});
  // 3 or [3, 2]: one for both axes, or {vertical, horizontal}.
  Pair pair(std::string_view key, Pair standard, int64_t min = kMinInt, int64_t max = kMaxInt);
  Pair require_pair(std::string_view key, int64_t min = kMinInt, int64_t max = kMaxInt);
  // A file's name, as seen from the file that says it.
  std::string path(std::string_view key, std::string standard = "");
  std::string require_path(std::string_view key);
  // One file's name or a list of them, at least one; empty after an error.
  std::vector<std::string> require_paths(std::string_view key);
  // Every file's name that was read so far, with the place that says it.
  struct NamedPath {
    std::string path;
    Position at;
  };
  const std::vector<NamedPath>& paths() const { return paths_; }
  // Unread values for other readers; null where absent or, after an error, of another kind.
  const Value* value(std::string_view key);
  const Value* table(std::string_view key);
  const Value* require_table(std::string_view key);
  const Value* list(std::string_view key);

  // A key that somebody else reads.
  void also_known(std::string_view key) { known(key); }
  // Reports every unknown key with the nearest known one. Call it after the last key was asked for.
  void finish();

 private:
  const Value* known(std::string_view key);
  const Value* required(std::string_view key);
  void wrong_type(std::string_view key, std::string_view expected, const Value& got);
  // The readers of a value that is there; empty after an error.
  std::optional<int64_t> read_integer(std::string_view key, const Value& v, int64_t min, int64_t max,
                                      std::string_view expected = "an integer");
  std::optional<double> read_number(std::string_view key, const Value& v, double min, double max);
  std::optional<std::string> read_string(std::string_view key, const Value& v);
  std::optional<std::string> read_choice(std::string_view key, const Value& v, std::span<const std::string> known);
  std::optional<std::vector<int64_t>> read_integers(std::string_view key, const Value& v, int64_t min, int64_t max);
  std::optional<Pair> read_pair(std::string_view key, const Value& v, int64_t min, int64_t max);
  std::optional<std::string> read_path(std::string_view key, const Value& v);

  const Value& table_;
  Diagnostics& diagnostics_;
  std::string what_;
  std::vector<std::string> known_;
  std::vector<NamedPath> paths_;
};

}  // namespace dtrain::config
