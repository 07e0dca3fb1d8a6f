#include "node/posted_outbox.h"

#include <gtest/gtest.h>


#include "tests/node/recording_outbox.h"

namespace dtrain::node {
namespace {

class PostedOutboxTest : public testing::Test {
 protected:
  void on_compute_thread(const std::function<void()>& f) { std::thread(f).join(); }
  void say(int64_t step) { outbox_.send(3, wire::Committed{step}); }
  std::vector<int64_t> heard() {
    std::vector<int64_t> steps;
    while (!sent_.empty()) steps.push_back(std::get<wire::Committed>(sent_.next()->message).version);
    return steps;
  }
  void run_posted() {
    for (auto& f : std::exchange(posted_, {})) f();
  }

  RecordingOutbox sent_;
  std::vector<std::function<void()>> posted_;
  PostedOutbox outbox_{sent_, [this](std::function<void()> f) { posted_.push_back(std::move(f)); }};
};

TEST_F(PostedOutboxTest, TheLoopSendsAtOnce) {
  say(1);
  EXPECT_TRUE(posted_.empty());
  EXPECT_EQ(heard(), std::vector<int64_t>{1});
}

TEST_F(PostedOutboxTest, TheComputeThreadsAreSentByTheLoopInOrder) {
  on_compute_thread([this] {
    say(1);
    say(2);
  });
  EXPECT_TRUE(heard().empty());
  EXPECT_EQ(posted_.size(), 1u) << "the loop is woken once for what it has not come to";
  run_posted();
  EXPECT_EQ(heard(), (std::vector<int64_t>{1, 2}));
  on_compute_thread([this] { say(3); });
  EXPECT_EQ(posted_.size(), 1u);
  run_posted();
  EXPECT_EQ(heard(), std::vector<int64_t>{3});
}

TEST_F(PostedOutboxTest, AHoldKeepsThemTogether) {
  on_compute_thread([this] {
    {
      const PostedOutbox::Hold outer(outbox_);
      {
        const PostedOutbox::Hold inner(outbox_);
        say(1);
      }
      say(2);
      EXPECT_TRUE(posted_.empty());
    }
    EXPECT_EQ(posted_.size(), 1u);
    const PostedOutbox::Hold nothing(outbox_);
  });
  EXPECT_EQ(posted_.size(), 1u);
  run_posted();
  EXPECT_EQ(heard(), (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace dtrain::node
