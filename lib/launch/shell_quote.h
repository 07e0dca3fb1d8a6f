// Words for a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launch {

// As sh, bash, zsh, dash and fish read it back: as it is where nothing in it means anything to a shell.
std::string shell_quote(std::string_view word);
std::string shell_quote(const std::vector<std::string>& words);  // with blanks between them

}  // namespace dtrain::launch
