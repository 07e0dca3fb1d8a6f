#include "wire_limits.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/crc32c.h"
#include "net/asio/bare_echo.h"
#include "ps/chunk_math.h"

namespace dtrain::cmd {
namespace {

constexpr size_t kRead = 256u << 10;

double seconds_since(Instant begin) { return static_cast<double>(SteadyClock().now() - begin) / kSecond; }

tl::unexpected<Error> broken(const char* what) {
  return fail(ExitCode::kPeerLost, fmt::format("cannot measure: {}: {}", what, std::strerror(errno)));
}

// Two ends of one TCP connection over loopback.
Result<std::pair<net::UniqueFd, net::UniqueFd>> tcp_ends() {
  net::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  net::UniqueFd mine(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), at, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), at, &size) != 0 || ::connect(mine.get(), at, size) != 0)
    return broken("a connection over loopback");
  net::UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int yes = 1;
  for (const int fd : {mine.get(), other.get()}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (!other.valid()) return broken("a connection over loopback");
  return std::pair(std::move(mine), std::move(other));
}

Result<std::pair<net::UniqueFd, net::UniqueFd>> unix_ends() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return broken("a pair of Unix-domain sockets");
  const int buffer = 1 << 20;
  for (const int fd : ends) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  return std::pair(net::UniqueFd(ends[0]), net::UniqueFd(ends[1]));
}

}  // namespace

WireLimits::~WireLimits() { unmap(); }

void WireLimits::unmap() {
  if (shared_) ::munmap(const_cast<float*>(shared_), accumulator_.size());
  shared_ = nullptr;
}

Result<std::unique_ptr<WireLimits>> WireLimits::make(PeerChannel& child) {
  std::unique_ptr<WireLimits> limits(new WireLimits(child));
  for (const RawLink link : {kRawTcp, kRawUnix}) {
    DTRAIN_TRY_ASSIGN(auto ends, link == kRawTcp ? tcp_ends() : unix_ends());
    limits->sockets_[link] = std::move(ends.first);
    DTRAIN_TRY(child.obey({.act = Act::kSocket, .link = link}, ends.second.get()));
  }
  limits->chunk_ = Buffer(2 * kRead);
  return limits;
}

Status WireLimits::resize(size_t bytes) {
  unmap();
  accumulator_ = Buffer(bytes);
  other_ = Buffer(bytes);
  accumulator_.zero();
  other_.zero();
  DTRAIN_TRY(child_.obey({.act = Act::kMemory, .bytes = bytes}));
  DTRAIN_TRY(child_.send({.act = Act::kShare}));
  DTRAIN_TRY_ASSIGN(const net::UniqueFd file, child_.await_done());
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return broken("shared memory");
  shared_ = static_cast<const float*>(at);
  shared_sum();  // touches it
  return {};
}

Result<double> WireLimits::stream(RawLink link, Use use, size_t bytes) {
  const Instant begin = SteadyClock().now();
  DTRAIN_TRY(child_.send({.act = Act::kStream, .link = link, .bytes = bytes}));
  const std::span<float> all = accumulator_.as<float>();
  std::byte* const chunk = chunk_.data();
  uint32_t crc = 0;
  size_t kept = 0, at = 0;  // bytes of a cut element; elements that were added
  for (size_t left = bytes; left > 0;) {
    const ssize_t n = ::recv(sockets_[link].get(), chunk + kept, std::min(kRead, left), 0);
    if (n <= 0) return broken("the raw socket");
    left -= static_cast<size_t>(n);
    if (use == Use::kNothing) continue;
    if (use == Use::kSumAndChecksum) crc = crc32c({chunk + kept, static_cast<size_t>(n)}, crc);
    kept += static_cast<size_t>(n);
    const size_t elements = kept / sizeof(float);
    ps::add(all.subspan(at, elements), {reinterpret_cast<const float*>(chunk), elements});
    at += elements;
    kept %= sizeof(float);
    if (kept > 0) std::memmove(chunk, chunk + elements * sizeof(float), kept);
  }
  const double seconds = seconds_since(begin);
  DTRAIN_TRY(child_.await_done());
  return seconds;
}

double WireLimits::shared_sum() {
  const Instant begin = SteadyClock().now();
  ps::add(accumulator_.as<float>(), {shared_, accumulator_.size() / sizeof(float)});
  return seconds_since(begin);
}

double WireLimits::copy() {
  const Instant begin = SteadyClock().now();
  std::memcpy(other_.data(), accumulator_.data(), other_.size());
  return seconds_since(begin);
}

Result<std::vector<double>> WireLimits::echo(RawLink link, size_t bytes, size_t count) {
  DTRAIN_TRY(child_.send({.act = Act::kEcho, .link = link, .bytes = bytes, .count = count}));
  DTRAIN_TRY_ASSIGN(const auto times, net::measure_echo(sockets_[link].get(), bytes, count, SteadyClock()));
  DTRAIN_TRY(child_.await_done());
  std::vector<double> seconds;
  for (const Nanoseconds time : times) seconds.push_back(static_cast<double>(time) / kSecond);
  return seconds;
}

// -- the child --

bool WireLimitsChild::knows(Act act) {
  return act == Act::kMemory || act == Act::kSocket || act == Act::kStream || act == Act::kShare || act == Act::kEcho;
}

WireLimitsChild::~WireLimitsChild() {
  if (memory_) ::munmap(memory_, bytes_);
}

Status WireLimitsChild::obey(PeerChannel& parent, const Order& order, net::UniqueFd fd) {
  switch (order.act) {
    case Act::kSocket:
      sockets_[order.link] = std::move(fd);
      break;
    case Act::kMemory: {
      if (memory_) ::munmap(memory_, bytes_);
      bytes_ = order.bytes;
      file_ = net::UniqueFd(::memfd_create("dtrain-benchmark", MFD_CLOEXEC));
      if (::ftruncate(file_.get(), static_cast<off_t>(bytes_)) != 0) return broken("shared memory");
      void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
      memory_ = at == MAP_FAILED ? nullptr : static_cast<float*>(at);
      if (!memory_) return broken("shared memory");
      std::fill_n(memory_, bytes_ / sizeof(float), 1.0f);
      break;
    }
    case Act::kStream:
      for (size_t at = 0; at < order.bytes;) {
        const ssize_t n = ::send(sockets_[order.link].get(), reinterpret_cast<const std::byte*>(memory_) + at,
                                 std::min(kRead, order.bytes - at), MSG_NOSIGNAL);
        if (n <= 0) return broken("the raw socket");
        at += static_cast<size_t>(n);
      }
      break;
    case Act::kShare:
      return parent.send({}, file_.get());
    case Act::kEcho:
      DTRAIN_TRY(net::answer_echo(sockets_[order.link].get(), order.bytes, order.count));
      break;
    default:
      return fail(ExitCode::kBug, "an order that is not about the limits");
  }
  return parent.send({});
}

}  // namespace dtrain::cmd
