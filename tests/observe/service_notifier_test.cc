#include "observe/service_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"

namespace dtrain::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Who listens: a datagram socket at a path, or at an abstract name.
class Listener {
 public:
  explicit Listener(const std::string& address) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::copy(address.begin(), address.end(), at.sun_path);
    size_t length = offsetof(sockaddr_un, sun_path) + address.size();
    if (at.sun_path[0] == '@')
      at.sun_path[0] = '\0';
    else
      ++length;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), static_cast<socklen_t>(length)), 0) << address;
  }
  ~Listener() { close(fd_); }

  std::vector<std::string> take() {
    std::vector<std::string> all;
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(fd_, buffer, sizeof buffer, 0)) >= 0;)
      all.emplace_back(buffer, static_cast<size_t>(n));
    return all;
  }

 private:
  int fd_;
};

class ServiceNotifierTest : public testing::Test {
 protected:
  ServiceNotifier open(std::optional<Nanoseconds> watchdog = std::nullopt) {
    auto notifier = ServiceNotifier::open(address_, watchdog);
    EXPECT_TRUE(notifier) << notifier.error().message;
    return std::move(*notifier);
  }

  TemporaryDirectory folder_;
  const std::string address_ = folder_.path() + "/notify";
  Listener listener_{address_};
};

TEST_F(ServiceNotifierTest, SaysThatTrainingHasBegunOnce) {
  ServiceNotifier notifier = open();
  EXPECT_THAT(listener_.take(), IsEmpty());
  notifier.ready();
  notifier.ready();
  notifier.beat(kSecond);
  EXPECT_THAT(listener_.take(), ElementsAre("READY=1"));
}

TEST_F(ServiceNotifierTest, AnAbstractAddress) {
  const std::string name = "@dtrain-test-" + std::to_string(getpid());
  Listener listener(name);
  auto notifier = ServiceNotifier::open(name, std::nullopt);
  ASSERT_TRUE(notifier) << notifier.error().message;
  notifier->ready();
  EXPECT_THAT(listener.take(), ElementsAre("READY=1"));
}

TEST_F(ServiceNotifierTest, AStatusASecondOfOneLineAndOnlyWhereItIsAnother) {
  ServiceNotifier notifier = open();
  EXPECT_TRUE(notifier.wants_status(5 * kSecond));
  notifier.status("waits\nfor two", 5 * kSecond);
  EXPECT_FALSE(notifier.wants_status(6 * kSecond - 1));
  notifier.status("too soon", 6 * kSecond - 1);
  EXPECT_THAT(listener_.take(), ElementsAre("STATUS=waits for two"));
  notifier.status("waits\nfor two", 6 * kSecond);
  EXPECT_THAT(listener_.take(), IsEmpty());
  notifier.status("step 1 of 2", 7 * kSecond);
  EXPECT_THAT(listener_.take(), ElementsAre("STATUS=step 1 of 2"));
}

TEST_F(ServiceNotifierTest, BeatsAtHalfOfTheTime) {
  ServiceNotifier notifier = open(10 * kSecond);
  for (Instant now = 100 * kSecond; now <= 111 * kSecond; now += kSecond) notifier.beat(now);
  EXPECT_THAT(listener_.take(), ElementsAre("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"));
  ServiceNotifier unwatched = open();
  unwatched.beat(200 * kSecond);
  EXPECT_THAT(listener_.take(), IsEmpty());
}

TEST_F(ServiceNotifierTest, SaysThatItEndsOnceAndAtTheLatestWithItsOwnEnd) {
  {
    ServiceNotifier notifier = open();
    notifier.stopping();
    notifier.stopping();
  }
  EXPECT_THAT(listener_.take(), ElementsAre("STOPPING=1"));
  {
    ServiceNotifier first = open();
    const ServiceNotifier second = std::move(first);
  }
  EXPECT_THAT(listener_.take(), ElementsAre("STOPPING=1"));
}

TEST_F(ServiceNotifierTest, WhoDoesNotReadLosesBeatsButNotThatTrainingHasBegun) {
  ServiceNotifier notifier = open(2 * kSecond);
  for (Instant now = 0; now < 10000 * kSecond; now += kSecond) notifier.beat(now);
  const Instant later = 20000 * kSecond;
  notifier.ready();
  notifier.beat(later);
  const std::vector<std::string> early = listener_.take();
  EXPECT_LT(early.size(), 10000u) << "the queue was never full";
  EXPECT_EQ(std::count(early.begin(), early.end(), "WATCHDOG=1"), static_cast<long>(early.size()));
  notifier.beat(later + 10 * kSecond);
  EXPECT_THAT(listener_.take(), ElementsAre("READY=1", "WATCHDOG=1"));
}

TEST_F(ServiceNotifierTest, NobodyAsksNobodyListens) {
  ServiceNotifier silent;
  EXPECT_FALSE(silent.wants_status(0));
  silent.ready();
  silent.beat(0);
  silent.status("x", 0);
  auto gone = ServiceNotifier::open(folder_.path() + "/nobody", kSecond);
  ASSERT_TRUE(gone);
  gone->ready();
  gone->beat(0);
  gone->stopping();
  EXPECT_THAT(listener_.take(), IsEmpty());
}

TEST_F(ServiceNotifierTest, AddressesThatCannotBe) {
  for (const std::string& wrong : {std::string("notify"), std::string("/"), std::string("@"), std::string("vsock:2:1")})
    EXPECT_FALSE(ServiceNotifier::open(wrong, std::nullopt)) << wrong;
  const auto longest = ServiceNotifier::open("/" + std::string(106, 'x'), std::nullopt);
  EXPECT_TRUE(longest);
  const auto longer = ServiceNotifier::open("/" + std::string(107, 'x'), std::nullopt);
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("longer than the 107 bytes"));
}

}  // namespace
}  // namespace dtrain::observe
