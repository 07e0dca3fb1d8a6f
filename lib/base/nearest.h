// "Did you mean": the known name nearest to a misspelt one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dtrain {

// Levenshtein distance with transpositions of neighbours counted as one edit.
int edit_distance(std::string_view a, std::string_view b);

// The nearest of `known`; where none is near (more than a third of the letters differ, at least 2 allowed) one that
// `name` begins with or the only one that ends in it, as names of elsewhere do (kernel_size); or "".
std::string nearest(std::string_view name, std::span<const std::string> known);

// " (did you mean 'x'?)" or, where nothing is near, " (known: a, b, c)".
std::string suggestion(std::string_view name, std::span<const std::string> known);

}  // namespace dtrain
