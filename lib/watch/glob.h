// Patterns of names as shells have them: `*` any text, `?` one character.
#pragma once

#include <string_view>

namespace dtrain::watch {

bool matches(std::string_view pattern, std::string_view name);
inline bool is_pattern(std::string_view text) { return text.find_first_of("*?") != std::string_view::npos; }

}  // namespace dtrain::watch
