#include "sim/scale/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace dtrain::sim::scale {
namespace {

TEST(EventQueue, GivesEventsByTimeAndThenInTheOrderOfTheirComing) {
  std::mt19937 random(1);
  EventQueue queue;
  std::vector<Event> waiting;  // in the order of their coming
  Instant now = 0;
  uint32_t made = 0;
  for (int round = 0; round < 20'000; ++round) {
    for (uint32_t n = random() % 3; n > 0; --n) {
      const Instant far = Instant{1} << (random() % 40);
      const Event e{now + static_cast<Instant>(random()) % far, Event::Kind::kTurn, 0, made++};
      queue.push(e);
      waiting.push_back(e);
    }
    if (waiting.empty()) continue;
    const auto first =
        std::min_element(waiting.begin(), waiting.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
    const Event e = queue.pop();
    ASSERT_EQ(e.at, first->at);
    ASSERT_EQ(e.data, first->data);
    now = e.at;
    waiting.erase(first);
    ASSERT_EQ(queue.size(), waiting.size());
  }
}

}  // namespace
}  // namespace dtrain::sim::scale
