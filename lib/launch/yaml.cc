#include "launch/yaml.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/ascii.h"

namespace dtrain::launch {
namespace {

using Json = nlohmann::ordered_json;

// What YAML reads as a string whatever its version; everything else is quoted as in JSON, which YAML includes.
bool is_plain(const std::string& text) {
  constexpr std::string_view kWords[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  std::string lower = text;
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const auto in_words = [](char c) { return is_alnum(c) || c == '-' || c == '.' || c == '/' || c == '_'; };
  return !text.empty() && (is_letter(text[0]) || text[0] == '/') && std::all_of(text.begin(), text.end(), in_words) &&
         std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

// A text of several lines that a literal block keeps as it is.
bool is_block(const std::string& text) {
  return text.size() > 1 && text.back() == '\n' && text[text.size() - 2] != '\n' && text[0] != ' ' && text[0] != '\n' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= 0x20 || c == '\n'; });
}

std::string scalar(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void write(const Json& value, size_t indent, std::string& out);

// Behind "key:" or "-".
void write_value(const Json& value, size_t indent, bool in_list, std::string& out) {
  if (value.is_string() && is_block(value.get_ref<const std::string&>())) {
    out += " |\n";
    const std::string& text = value.get_ref<const std::string&>();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      if (end > begin) out.append(indent + 2, ' ');
      out.append(text, begin, end + 1 - begin);
      begin = end + 1;
    }
  } else if ((value.is_object() || value.is_array()) && !value.empty()) {
    if (in_list && value.is_object()) {  // its first key stands behind the dash
      std::string inner;
      write(value, indent + 2, inner);
      out += " " + inner.substr(indent + 2);
    } else {
      out += "\n";
      write(value, indent + 2, out);
    }
  } else {
    out += " " + scalar(value) + "\n";
  }
}

void write(const Json& value, size_t indent, std::string& out) {
  if (value.is_array()) {
    for (const Json& item : value) {
      out.append(indent, ' ');
      out += "-";
      write_value(item, indent, true, out);
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out.append(indent, ' ');
    out += (is_plain(key) ? key : Json(key).dump()) + ":";
    write_value(item, indent, false, out);
  }
}

}  // namespace

std::string to_yaml(const nlohmann::ordered_json& value) {
  std::string out;
  write(value, 0, out);
  return out;
}

}  // namespace dtrain::launch
