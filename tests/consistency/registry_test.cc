#include "consistency/registry.h"

#include <gmock/gmock.h>

#include "rule_text.h"

namespace dtrain::consistency {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConsistencyKeys, ANameAloneOrATable) {
  config::Diagnostics diagnostics;
  EXPECT_EQ(read_rule(nullptr, diagnostics)->mode().name, "sync");
  EXPECT_EQ(rule_of("'sync'")->mode().name, "sync");
  EXPECT_EQ(rule_of("'async'")->mode().name, "async");
  EXPECT_EQ(rule_of("{ type = 'async' }")->mode().name, "async");
  EXPECT_EQ(rule_of("{}")->mode().name, "sync");
}

TEST(ConsistencyKeys, WhatTheRolesAreTold) {
  const Mode sync = rule_of("'sync'")->mode();
  EXPECT_TRUE(sync.same_bits && sync.lockstep && !sync.newest && !sync.single);
  EXPECT_EQ(sync.window, 1);
  EXPECT_EQ(sync.stride, 1);

  const Mode backup = rule_of("{ type = 'backup', needed = 3 }")->mode();
  EXPECT_EQ(backup.needed, 3);
  EXPECT_TRUE(backup.single && backup.lockstep && !backup.same_bits);

  const Mode stale = rule_of("{ type = 'stale', bound = 2 }")->mode();
  EXPECT_EQ(stale.window, 3);
  EXPECT_EQ(stale.needed, 0);
  EXPECT_TRUE(stale.newest && stale.lockstep && !stale.same_bits);

  const Mode async =
      rule_of("{ type = 'async', fetch_every = 4, push_every = 2, delay_compensation = 0.04, most_lag = 7 }")->mode();
  EXPECT_EQ(async.fetch_every, 4);
  EXPECT_EQ(async.push_every, 2);
  EXPECT_EQ(async.delay_compensation, 0.04);
  EXPECT_TRUE(async.newest && async.single && !async.lockstep && !async.same_bits);

  const Mode local = rule_of("{ type = 'local', steps = 20 }")->mode();
  EXPECT_EQ(local.stride, 20);
  EXPECT_TRUE(local.same_bits && local.lockstep && !local.newest);
}

// Whoever computes a share again must find the version that it was computed from first.
TEST(ConsistencyKeys, ABoundOfNothingReadsItsOwnVersionAndNoOther) {
  const auto rule = rule_of("{ type = 'stale', bound = 0 }");
  EXPECT_TRUE(rule->mode().same_bits);
  EXPECT_FALSE(rule->mode().newest);
  EXPECT_EQ(rule->mode().window, 1);
  EXPECT_EQ(rule->oldest(7), 7);
}

TEST(ConsistencyKeys, HowOldParametersMayBe) {
  const auto stale = rule_of("{ type = 'stale', bound = 3 }");
  EXPECT_EQ(stale->oldest(10), 7);
  EXPECT_EQ(stale->oldest(1), 0);
  EXPECT_EQ(rule_of("'sync'")->oldest(10), 10);
  EXPECT_EQ(rule_of("{ type = 'backup', needed = 1 }")->oldest(10), 10);
  EXPECT_EQ(rule_of("'async'")->oldest(10), 0);
}

TEST(ConsistencyKeys, MistakesAreSaidWithTheirPlace) {
  EXPECT_THAT(mistakes_of("'stail'"),
              AllOf(HasSubstr("run.toml:1:15"), HasSubstr("'stail'"), HasSubstr("did you mean 'stale'?")));
  EXPECT_THAT(mistakes_of("'stale'"), HasSubstr("bound"));
  EXPECT_THAT(mistakes_of("{ type = 'stale', bound = -1 }"), AllOf(HasSubstr("run.toml:1:41"), HasSubstr("bound")));
  EXPECT_THAT(mistakes_of("{ type = 'backup' }"), HasSubstr("needed"));
  EXPECT_THAT(mistakes_of("{ type = 'backup', needed = 0 }"), AllOf(HasSubstr("run.toml:1:43"), HasSubstr("needed")));
  EXPECT_THAT(mistakes_of("{ type = 'async', fetch_every = 0 }"), HasSubstr("fetch_every"));
  EXPECT_THAT(mistakes_of("{ type = 'async', push_every = 0 }"), HasSubstr("push_every"));
  EXPECT_THAT(mistakes_of("{ type = 'async', delay_compensation = -0.1 }"), HasSubstr("delay_compensation"));
  EXPECT_THAT(mistakes_of("{ type = 'async', most_lag = -1 }"), HasSubstr("most_lag"));
  EXPECT_THAT(mistakes_of("{ type = 'local', steps = 0 }"), HasSubstr("steps"));
  EXPECT_THAT(mistakes_of("{ type = 'sync', bound = 1 }"), HasSubstr("bound"));
  EXPECT_THAT(mistakes_of("3"), HasSubstr("train.consistency"));
}

}  // namespace
}  // namespace dtrain::consistency
