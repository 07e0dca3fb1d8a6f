// Consistency modes for tests, from what a run file says of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "config/parse.h"
#include "consistency/registry.h"

namespace dtrain::consistency {

// `text` is the value of train.consistency: "'async'", "{ type = 'stale', bound = 2 }".
inline std::shared_ptr<const AdmissionRule> rule_of(const std::string& text) {
  const auto table = config::parse_toml("consistency = " + text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  auto rule = read_rule(table->find("consistency"), diagnostics);
  EXPECT_TRUE(diagnostics.ok()) << diagnostics.status().error().message;
  return rule;
}

// What is said of a wrong one.
inline std::string mistakes_of(const std::string& text) {
  const auto table = config::parse_toml("consistency = " + text, "run.toml");
  EXPECT_TRUE(table.has_value());
  config::Diagnostics diagnostics;
  EXPECT_TRUE(read_rule(table->find("consistency"), diagnostics));
  return diagnostics.ok() ? "" : diagnostics.status().error().message;
}

}  // namespace dtrain::consistency
