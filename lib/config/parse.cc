#include "config/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "config/diagnostics.h"

namespace {

// The library (3.3.0) answers some malformed texts, "[[[a]]]" for one, with a failed assertion; without assertions they
// are undefined behaviour. Here an assertion ends the parsing instead.
struct ParserGaveUp {};
[[noreturn]] void give_up() { throw ParserGaveUp(); }

}  // namespace

#undef NDEBUG
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? static_cast<void>(0) : give_up())
#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 64
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace dtrain::config {
namespace {

static_assert(TOML_MAX_NESTED_VALUES == kMaxNesting);

using FileName = std::shared_ptr<const std::string>;

Status error_at(const Position& position, std::string message) {
  Diagnostics diagnostics;
  diagnostics.error(position, std::move(message));
  return diagnostics.status();
}

// Walks over a string that starts at `at`; the index behind it (or the text's end).
size_t skip_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
  const bool multi = text.substr(at, 3) == triple;
  for (size_t i = at + (multi ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (multi ? text.substr(i, 3) == triple : text[i] == quote) {
      return i + (multi ? 3 : 1);
    } else if (!multi && text[i] == '\n') {
      return i;  // malformed: the parser will say so
    }
  }
  return text.size();
}

// The library bounds nested values but not dotted keys, whose depth would become recursion. The place (line, column) of
// the first key with too many parts.
std::optional<std::pair<int, int>> too_deep_key(std::string_view text) {
  int dots = 0, line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const size_t end = skip_string(text, i);
      for (; i < end; ++i) {
        if (text[i] == '\n') ++line, line_start = i + 1;
      }
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '.') {
      if (++dots >= kMaxNesting) return std::pair(line, static_cast<int>(i - line_start) + 1);
    } else if (std::string_view("=,{}[]\n").find(c) != std::string_view::npos) {
      dots = 0;
    }
    if (c == '\n') ++line, line_start = i + 1;
    ++i;
  }
  return std::nullopt;
}

std::optional<toml::parse_result> parse_or_give_up(std::string_view text) {
  try {
    return toml::parse(text, std::string_view());
  } catch (const ParserGaveUp&) {
    return std::nullopt;
  }
}

// REQUIRES: the parser gives up on `text`. It does so on every text that begins with the same lines, which finds them.
int line_of_giving_up(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ends.push_back(i + 1);
  }
  const auto first = std::partition_point(
      ends.begin(), ends.end(), [text](size_t end) { return parse_or_give_up(text.substr(0, end)).has_value(); });
  return static_cast<int>(first - ends.begin()) + 1;
}

class Converter {
 public:
  explicit Converter(FileName file) : file_(std::move(file)) {}

  Value table(const toml::table& from) {
    Value::Table entries;
    for (auto&& [key, node] : from) {
      entries.push_back({std::string(key.str()), node_value(node), position(key.source().begin)});
    }
    // The library sorts by key; people expect their own order.
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.key_position.line(), a.key_position.column()) <
             std::pair(b.key_position.line(), b.key_position.column());
    });
    return Value(std::move(entries), position(from.source().begin));
  }

  const std::optional<Position>& date() const { return date_; }

 private:
  Position position(const toml::source_position& p) const {
    return Position(file_, static_cast<int>(p.line), static_cast<int>(p.column));
  }

  Value node_value(const toml::node& node) {
    const Position at = position(node.source().begin);
    if (const auto* t = node.as_table()) return table(*t);
    if (const auto* a = node.as_array()) {
      Value::Array items;
      items.reserve(a->size());
      for (const toml::node& item : *a) items.push_back(node_value(item));
      return Value(std::move(items), at);
    }
    if (const auto* s = node.as_string()) return Value(s->get(), at);
    if (const auto* i = node.as_integer()) return Value(i->get(), at);
    if (const auto* f = node.as_floating_point()) return Value(f->get(), at);
    if (const auto* b = node.as_boolean()) return Value(b->get(), at);
    if (!date_) date_ = at;
    return Value(std::string(), at);
  }

  FileName file_;
  std::optional<Position> date_;
};

}  // namespace

Result<Value> parse_toml(std::string_view text, const std::string& file) {
  auto name = std::make_shared<const std::string>(file);
  if (text.size() > kMaxFileBytes) {
    DTRAIN_TRY(error_at(Position(name, 1, 1),
                        fmt::format("the file has more than {} MiB; is it a configuration?", kMaxFileBytes >> 20)));
  }
  if (auto place = too_deep_key(text)) {
    DTRAIN_TRY(error_at(Position(name, place->first, place->second),
                        fmt::format("a key has more than {} parts", kMaxNesting)));
  }
  std::optional<toml::parse_result> result = parse_or_give_up(text);
  if (!result) {
    DTRAIN_TRY(
        error_at(Position(name, line_of_giving_up(text), 1), "not valid TOML; look for stray brackets and dots"));
  }
  const toml::parse_result& parsed = *result;
  if (!parsed) {
    const toml::source_position at = parsed.error().source().begin;
    DTRAIN_TRY(
        error_at(Position(name, std::max(1, static_cast<int>(at.line)), std::max(1, static_cast<int>(at.column))),
                 fmt::format("not valid TOML: {}", parsed.error().description())));
  }
  Converter converter(name);
  Value root = converter.table(parsed.table());
  if (converter.date()) DTRAIN_TRY(error_at(*converter.date(), "a date or time is no value here; put it in quotes"));
  return Value(std::move(root.as_table()), Position(name, 1, 1));
}

}  // namespace dtrain::config
