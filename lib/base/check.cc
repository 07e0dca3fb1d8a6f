#include "base/check.h"

#include <unistd.h>

#include <cstdio>

namespace dtrain {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "dtrain: bug: %s:%d: %s does not hold%s%s\n", file, line, condition, message.empty() ? "" : ": ",
               message.c_str());
  std::fflush(nullptr);
  _exit(1);
}

}  // namespace dtrain
