// A configuration as text: once for digests, once for people.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/value.h"

namespace dtrain::config {

// One text for all ways to write the same values: keys sorted, no layout, positions or comments, floats as the shortest
// text that reads back to the same bits (a whole number as an integer, since 1 and 1.0 mean the same). Paths as given.
// `without` names keys to leave out, as "train.steps".
std::string canonical_text(const Value& value, std::span<const std::string> without = {});

// The table as TOML, in its own order; reads back to the same canonical text.
std::string effective_toml(const Value& table);

// `text` as a TOML basic string, with its quotes.
std::string quoted(std::string_view text);

}  // namespace dtrain::config
