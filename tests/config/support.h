// What the tests of the configuration share: values from text, and the message of a failure.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "config/diagnostics.h"
#include "config/parse.h"
#include "config/value.h"

namespace dtrain::config {

inline Value parsed(std::string_view text, const std::string& file = "run.toml") {
  Result<Value> value = parse_toml(text, file);
  EXPECT_TRUE(value) << (value ? "" : value.error().message);
  return value ? *value : Value();
}

template <typename T>
std::string message_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

inline std::string message_of(const Diagnostics& diagnostics) {
  Status status = diagnostics.status();
  return status ? "" : status.error().message;
}

}  // namespace dtrain::config
