#include "config/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace dtrain::config {
namespace {

std::string float_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", x);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string canonical_float(double x) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it not every integer is a double
  const bool whole = std::abs(x) <= kExact && x == std::trunc(x) && !(x == 0 && std::signbit(x));
  return whole ? fmt::format("{}", static_cast<int64_t>(x)) : float_text(x);
}

void write_canonical(const Value& v, std::span<const std::string> without, const std::string& prefix,
                     std::string& out) {
  if (v.is_table()) {
    std::vector<const Entry*> sorted;
    for (const Entry& e : v.as_table()) sorted.push_back(&e);
    std::sort(sorted.begin(), sorted.end(), [](const Entry* a, const Entry* b) { return a->key < b->key; });
    out += '{';
    for (const Entry* e : sorted) {
      const std::string path = prefix + e->key;
      if (std::find(without.begin(), without.end(), path) != without.end()) continue;
      if (out.back() != '{') out += ',';
      out += quoted(e->key) + "=";
      write_canonical(e->value, without, path + ".", out);
    }
    out += '}';
  } else if (v.is_array()) {
    out += '[';
    for (const Value& item : v.as_array()) {
      if (out.back() != '[') out += ',';
      write_canonical(item, {}, "", out);
    }
    out += ']';
  } else if (v.is_string()) {
    out += quoted(v.as_string());
  } else if (v.is_integer()) {
    out += fmt::format("{}", v.as_integer());
  } else if (v.is_float()) {
    out += canonical_float(v.as_float());
  } else {
    out += v.as_boolean() ? "true" : "false";
  }
}

std::string key_text(std::string_view key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
  return bare ? std::string(key) : quoted(key);
}

std::string inline_text(const Value& v) {
  std::vector<std::string> parts;
  if (v.is_table()) {
    for (const Entry& e : v.as_table()) parts.push_back(key_text(e.key) + " = " + inline_text(e.value));
    return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
  }
  if (v.is_array()) {
    for (const Value& item : v.as_array()) parts.push_back(inline_text(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (v.is_float()) return float_text(v.as_float());
  std::string out;
  write_canonical(v, {}, "", out);  // strings, integers and booleans have one text only
  return out;
}

bool has_tables(const Value& v) {
  return v.is_array() &&
         std::any_of(v.as_array().begin(), v.as_array().end(), [](const Value& i) { return i.is_table(); });
}

void write_section(const Value& table, const std::string& path, std::string& out) {
  const Value::Table& entries = table.as_table();
  const bool only_tables = !entries.empty() && std::all_of(entries.begin(), entries.end(),
                                                           [](const Entry& e) { return e.value.is_table(); });
  if (!path.empty() && !only_tables) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", path);
  for (const Entry& e : entries) {
    if (e.value.is_table()) continue;
    if (has_tables(e.value)) {  // a layer a line
      out += key_text(e.key) + " = [\n";
      for (const Value& item : e.value.as_array()) out += "  " + inline_text(item) + ",\n";
      out += "]\n";
    } else {
      out += key_text(e.key) + " = " + inline_text(e.value) + "\n";
    }
  }
  for (const Entry& e : entries) {
    if (e.value.is_table()) write_section(e.value, path.empty() ? key_text(e.key) : path + "." + key_text(e.key), out);
  }
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string canonical_text(const Value& value, std::span<const std::string> without) {
  std::string out;
  write_canonical(value, without, "", out);
  return out;
}

std::string effective_toml(const Value& table) {
  std::string out;
  write_section(table, "", out);
  return out;
}

}  // namespace dtrain::config
