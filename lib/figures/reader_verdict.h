// Whether the reader of a run's data keeps up with its steps, and what to do where it does not. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace dtrain::figures {

// `ratio`: what the reader gives with so many threads beside what the step takes, as samples/s. A line for people.
std::string reader_verdict(double ratio, size_t threads, size_t cores);

}  // namespace dtrain::figures
