#include "config/task_device.h"

#include <gmock/gmock.h>

#include "config/canonical.h"
#include "tests/config/support.h"

namespace dtrain::config {
namespace {

std::string mistake(std::string_view text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(read_task_device(text, Position("r.toml", 3, 4), "layer 'a'", diagnostics));
  return diagnostics.ok() ? "" : diagnostics.status().error().message;
}

TEST(TaskDevice, JobAndTask) {
  Diagnostics diagnostics;
  const auto device = read_task_device("/job:trainer-2/task:13", Position("r.toml", 3, 4), "layer 'a'", diagnostics);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->job, "trainer-2");
  EXPECT_EQ(device->task, 13);
  EXPECT_EQ(device->position.line(), 3);
  EXPECT_TRUE(diagnostics.ok());
}

TEST(TaskDevice, WhatIsNoneIsAnsweredWithWhatWasMeant) {
  for (const char* text : {"job:worker/task:1", "/job:worker/tsk:1", "worker:1", "/job:worker:1", "/job:worker/task:1/",
                           "/job:worker/replica:0/task:1", "worker/1", "//job:worker/task:1"})
    EXPECT_THAT(mistake(text), testing::HasSubstr("did you mean '/job:worker/task:1'?")) << text;
  EXPECT_THAT(mistake("/job:worker/task:1/"),
              testing::HasSubstr("r.toml:3:4: error: layer 'a': '/job:worker/task:1/' names"));
  for (const char* text :
       {"", "/", "cpu", "/job:/task:0", "/job:worker/task:", "/job:worker/task:-1", "/job:a b/task:0",
        "/job:worker/task:99999999999999999999", "/job:worker/task:+1", "/job:worker/task:1x"})
    EXPECT_THAT(mistake(text), testing::HasSubstr("\"/job:worker/task:1\"")) << text;
}

TEST(TaskDevice, ARunWithoutItsDevices) {
  const Value with = parsed(
      "[network]\nlayers = [ { type = \"a\", device = \"/job:worker/task:1\" }, { type = \"b\" } ]\n"
      "[network.block.x]\nlayers = [ { type = \"c\", device = \"/job:worker/task:1\" } ]\n");
  const Value without = parsed(
      "[network]\nlayers = [ { type = \"a\" }, { type = \"b\" } ]\n"
      "[network.block.x]\nlayers = [ { type = \"c\" } ]\n");
  EXPECT_EQ(canonical_text(without_devices(with)), canonical_text(without));
  EXPECT_EQ(canonical_text(without_devices(without)), canonical_text(without));
  EXPECT_EQ(canonical_text(without_devices(parsed("[network]\nlayers = 3\nblock = 4\n"))),
            canonical_text(parsed("[network]\nlayers = 3\nblock = 4\n")));
}

}  // namespace
}  // namespace dtrain::config
