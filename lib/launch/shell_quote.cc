#include "launch/shell_quote.h"

#include <algorithm>

#include "base/ascii.h"

namespace dtrain::launch {

std::string shell_quote(std::string_view word) {
  const auto plain = [](char c) {
    return is_alnum(c) || std::string_view("_-+./:,@%=").find(c) != std::string_view::npos;
  };
  // "NAME=value" as a first word would be an assignment, and zsh expands "=name".
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain) && word.find('=') == std::string_view::npos)
    return std::string(word);
  std::string out = "'";
  for (char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shell_quote(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_quote(word);
  return out;
}

}  // namespace dtrain::launch
