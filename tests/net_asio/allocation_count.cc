// The same counter in this program.
#include "tests/graph/allocation_count.cc"  // NOLINT
