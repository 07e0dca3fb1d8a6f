#include "sim/scale/frame.h"

#include <gtest/gtest.h>

#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame.h"

namespace dtrain::sim::scale {
namespace {

TEST(Frames, EveryMessageComesBackAsItWas) {
  const std::vector<wire::Message> messages{
      wire::Pull{.block = 3, .version = 7},
      wire::ParameterChunk{.block = 3, .version = 7, .chunk = 2},
      wire::Offer{.step = 5, .block = 4, .first = 1, .last = 2},
      wire::Take{.step = 5, .block = 4, .first = 1, .last = 2, .chunks = 9},
      wire::NodeChunk{.step = 5, .block = 4, .first = 1, .last = 2, .chunk = 3},
      wire::Absorbed{.step = 5, .block = 4, .first = 1, .last = 2, .version = 8, .dropped = true},
      wire::Gone{.block = 1, .version = 2, .newest = 3},
      wire::Rates{.from = 4, .rates = {0.5, 0.25}},
      wire::Failure{2, "so it is"},
  };
  Frames frames;
  for (int round = 0; round < 3; ++round) {
    std::vector<uint32_t> numbers;
    for (const wire::Message& m : messages) numbers.push_back(frames.make(1, 2, wire::Message(m), 100));
    for (size_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(frames[numbers[i]].bytes, wire::kHeaderBytes + wire::encode(messages[i]).size());
      EXPECT_EQ(frames[numbers[i]].payload, 100u);
      EXPECT_EQ(frames.take(numbers[i]), messages[i]) << wire::print(messages[i]);
    }
  }
  EXPECT_EQ(frames.size(), messages.size());
}

}  // namespace
}  // namespace dtrain::sim::scale
