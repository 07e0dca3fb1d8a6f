#include "node/learnt.h"

#include <gtest/gtest.h>

namespace dtrain::node {
namespace {

TEST(Learnt, TravelsAsMetadata) {
  const Learnt learnt{"{\"a\": 1}", {"<=50K", "Köln \"x\""}};
  const auto back = Learnt::from(learnt.metadata());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->preprocessing, learnt.preprocessing);
  EXPECT_EQ(back->classes, learnt.classes);
  EXPECT_TRUE(Learnt{}.metadata().empty());
  EXPECT_TRUE(Learnt::from({{"format", "pt"}})->classes.empty());
  for (const char* bad : {"", "{}", "[1]", "[\"a\""}) EXPECT_FALSE(Learnt::from({{Learnt::kClasses, bad}})) << bad;
}

}  // namespace
}  // namespace dtrain::node
