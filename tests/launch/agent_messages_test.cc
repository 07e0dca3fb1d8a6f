#include "launch/agent_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
T again(const T& message) {
  std::string line = encode(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line, whatever is in it";
  line.pop_back();
  const auto decoded = decode(line);
  EXPECT_TRUE(decoded) << decoded.error().message;
  return std::get<T>(*decoded);
}

TEST(AgentMessages, ComeAsTheyWent) {
  const std::string odd = "a b 'c' \"d\" $HOME `e` \\f; é→日本\nsecond line\t\x01";
  TaskStart start{3, "worker/1", {"run", odd, ""}, {"A=" + odd}, "secret"};
  const TaskStart started = again(start);
  EXPECT_EQ(started.task, 3u);
  EXPECT_EQ(started.name, "worker/1");
  EXPECT_THAT(started.words, ElementsAre("run", odd, ""));
  EXPECT_THAT(started.environment, ElementsAre("A=" + odd));
  EXPECT_EQ(started.secret, "secret");

  Preparation what;
  what.folder = odd;
  what.set = {"a=1", "b=2"};
  what.resume = true;
  what.workers = 4;
  what.tasks = {{7, "ps/0", "10.0.0.1", 2500, true, false, true, true}, {8, "worker/0", "::1", 0, true, true}};
  const Preparation asked = again(what);
  EXPECT_EQ(asked.folder, odd);
  EXPECT_TRUE(asked.resume);
  EXPECT_FALSE(asked.auto_resume);
  ASSERT_EQ(asked.tasks.size(), 2u);
  EXPECT_EQ(asked.tasks[0].port, 2500u);
  EXPECT_TRUE(asked.tasks[0].coordinates);
  EXPECT_EQ(asked.tasks[1].host, "::1");

  const Prepared answer = again(Prepared{{2500, 2501}, {{3, "no data"}}, {"little memory"}});
  EXPECT_THAT(answer.ports, ElementsAre(2500u, 2501u));
  EXPECT_EQ(answer.problems.at(0).code, 3u);
  EXPECT_THAT(answer.warnings, ElementsAre("little memory"));

  EXPECT_EQ(again(Greeting{"1.0", "m", true}).machine, "m");
  EXPECT_EQ(again(SignalTask{1, 15}).number, 15u);
  EXPECT_TRUE(again(TaskLine{1, "bar", true}).rewrite);
  EXPECT_EQ(again(TaskReady{9}).task, 9u);
  EXPECT_TRUE(again(TaskEnded{1, 9, true}).signalled);
  again(Alive{});
}

TEST(AgentMessages, ASecretMayBeAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(from_digits(to_digits(bytes)), bytes);
  EXPECT_EQ(to_digits("\x0f\xa0"), "0fa0");
  EXPECT_EQ(from_digits("0g"), "");
}

TEST(AgentMessages, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(again(TaskLine{1,
                           "a\xff"
                           "b",
                           false})
                .text,
            "a\xef\xbf\xbd"
            "b");
}

TEST(AgentMessages, WhatIsNoneIsRefused) {
  for (const char* line :
       {"", "Welcome to node1", "{", "{}", "[]", "3", R"({"type": 3})", R"({"type": "reboot"})",
        R"({"type": "signal"})", R"({"type": "signal", "task": -1, "number": 9})",
        R"({"type": "signal", "task": 1, "number": 9e99})", R"({"type": "signal", "task": 1, "number": "9"})",
        R"({"type": "start", "task": 1, "name": "a", "words": "run", "environment": [], "secret": ""})",
        R"({"type": "prepared", "ports": [1], "problems": [3], "warnings": []})"})
    EXPECT_FALSE(decode(line)) << line;
  EXPECT_THAT(decode("Welcome").error().message, HasSubstr("Welcome"));
}

}  // namespace
}  // namespace dtrain::launch
