// Result<T>: what functions return when a user, a file or a peer can make them fail. Bugs are DTRAIN_CHECKs instead.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/exit_code.h"

namespace dtrain {

struct Error {
  ExitCode code = ExitCode::kBug;
  std::string message;  // for a person: what is wrong, where, what to do; may hold several lines; no newline at the end
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ExitCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace dtrain

// Evaluates an expression of type Result<T>; on failure returns its error from the calling function.
#define DTRAIN_TRY(expr)                                                            \
  do {                                                                              \
    if (auto dtrain_try_result = (expr); !dtrain_try_result)                        \
      return tl::unexpected<::dtrain::Error>(std::move(dtrain_try_result.error())); \
  } while (0)
#define DTRAIN_CONCAT_INNER(a, b) a##b
#define DTRAIN_CONCAT(a, b) DTRAIN_CONCAT_INNER(a, b)
// DTRAIN_TRY_ASSIGN(auto x, f()): as DTRAIN_TRY, and binds the value.
#define DTRAIN_TRY_ASSIGN(lhs, expr) DTRAIN_TRY_ASSIGN_IMPL(DTRAIN_CONCAT(dtrain_result_, __LINE__), lhs, expr)
#define DTRAIN_TRY_ASSIGN_IMPL(tmp, lhs, expr)                              \
  auto tmp = (expr);                                                        \
  if (!tmp) return tl::unexpected<::dtrain::Error>(std::move(tmp.error())); \
  lhs = std::move(*tmp)
