#include "host_costs.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "proto-free-wire/frame.h"
#include "ps/chunk_math.h"
#include "quantity.h"
#include "tensor/buffer.h"

namespace dtrain::cmd {
namespace {

constexpr size_t kChunk = kChunkElements * sizeof(float);
constexpr size_t kChunks = 256;  // more than a cache holds

// Nanoseconds of the fastest of some calls.
double fastest(int times, const std::function<void()>& call) {
  SteadyClock clock;
  Nanoseconds best = INT64_MAX;
  for (int i = 0; i < times; ++i) {
    const Instant begin = clock.now();
    call();
    best = std::min(best, clock.now() - begin);
  }
  return static_cast<double>(best);
}

// Both ends of a TCP connection over loopback.
struct Connection {
  int ends[2] = {-1, -1};
  ~Connection() {
    for (int fd : ends)
      if (fd >= 0) ::close(fd);
  }
  bool open() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    bool good =
        ::bind(listener, any, size) == 0 && ::listen(listener, 1) == 0 && ::getsockname(listener, any, &size) == 0;
    ends[0] = ::socket(AF_INET, SOCK_STREAM, 0);
    const int buffer = 1 << 20, yes = 1;
    ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
    ::setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    ::setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    good = good && ::connect(ends[0], any, size) == 0;
    if (good) ends[1] = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    return good && ends[1] >= 0;
  }
  bool pass(ByteSpan out, std::byte* in) {
    size_t sent = 0, got = 0;
    while (got < out.size()) {
      if (sent < out.size()) {
        const ssize_t n = ::send(ends[0], out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) sent += static_cast<size_t>(n);
        if (n < 0 && errno != EAGAIN) return false;
      }
      const ssize_t n = ::recv(ends[1], in + got, out.size() - got, sent < out.size() ? MSG_DONTWAIT : 0);
      if (n > 0) got += static_cast<size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return false;
    }
    return true;
  }
};

}  // namespace

Result<sim::scale::HostCosts> measure_host_costs(const optim::Optimizer& optimizer) {
  sim::scale::HostCosts costs;
  const auto chunk = static_cast<size_t>(kChunkElements);
  Buffer values(kChunks * kChunk), sums(kChunks * kChunk), in(kChunk);
  values.zero();
  sums.zero();
  in.zero();
  const std::span<float> all = sums.as<float>(), from = values.as<float>(), one = in.as<float>();
  const auto per_byte = [](double ns) { return ns / static_cast<double>(kChunks * kChunk); };
  costs.add = per_byte(fastest(3, [&] {
    for (size_t i = 0; i < kChunks; ++i) ps::add(all.subspan(i * chunk, chunk), one);
  }));
  std::vector<Buffer> slots;
  for (size_t s = 0; s < optimizer.slots(); ++s) slots.emplace_back(kChunks * kChunk).zero();
  costs.update = per_byte(fastest(3, [&] {
    for (size_t i = 0; i < kChunks; ++i) {
      std::vector<float*> at;
      for (Buffer& slot : slots) at.push_back(slot.as<float>().data() + i * chunk);
      optimizer.update({.rate = 0.1, .step = 1}, chunk, one.data(), from.data() + i * chunk, all.data() + i * chunk,
                       at.data());
    }
  }));

  Connection connection;
  if (!connection.open())
    return fail(ExitCode::kUsage, "no TCP over loopback to measure with; give --host_cost for all");
  std::vector<std::byte> head;
  bool good = true;
  const double tensor = fastest(20, [&] {
    for (size_t i = 0; i < 16; ++i) {
      const ByteSpan payload{values.data() + i * kChunk, kChunk};
      head.clear();
      wire::append_head(wire::NodeChunk{}, payload, head);
      good = good && connection.pass(payload, in.data());
      const auto header = wire::parse_header(head, wire::kPeerLimits);
      good = good && header && wire::check_payload(*header, {in.data(), kChunk}).has_value();
    }
  });
  costs.send = costs.receive = tensor / (16.0 * kChunk) / 2;
  const double small = fastest(20, [&] {
    for (int i = 0; i < 100; ++i) {
      head.clear();
      wire::append_head(wire::Offer{}, {}, head);
      good = good && connection.pass(head, in.data());
      const auto header = wire::parse_header({in.data(), head.size()}, wire::kPeerLimits);
      good = good && header && wire::parse_head(*header, {in.data(), head.size()}).has_value();
    }
  });
  costs.write = costs.message = small / 100 / 2;
  if (!good) return fail(ExitCode::kUsage, "TCP over loopback broke while it was measured; give --host_cost for all");
  return costs;
}

Status set_cost(sim::scale::HostCosts& costs, const std::string& assignment) {
  const auto equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  using Costs = sim::scale::HostCosts;
  for (const auto& [name, to] : {std::pair("message", &Costs::message), {"write", &Costs::write}}) {
    if (key != name) continue;
    DTRAIN_TRY_ASSIGN(const Nanoseconds time, parse_time("--host_cost " + key, value));
    costs.*to = static_cast<double>(time);
    return {};
  }
  for (const auto& [name, to] : {std::pair("receive", &Costs::receive),
                                 {"send", &Costs::send},
                                 {"add", &Costs::add},
                                 {"update", &Costs::update}}) {
    if (key != name) continue;
    DTRAIN_TRY_ASSIGN(const double rate, parse_rate("--host_cost " + key, value));
    costs.*to = 1e9 / rate;
    return {};
  }
  return fail(ExitCode::kUsage,
              fmt::format("--host_cost {}: there are message, write (as 2us), receive, send, add, update (as 8GB/s)",
                          assignment));
}

}  // namespace dtrain::cmd
