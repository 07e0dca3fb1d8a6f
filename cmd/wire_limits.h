// What `dtrain benchmark wire` compares dtrain with: bare sockets, memory that two processes share, memcpy. One thread
// on each side, memory that both have touched before.
#pragma once

#include <memory>
#include <vector>

#include "net/asio/unique_fd.h"
#include "tensor/buffer.h"
#include "wire_peer.h"

namespace dtrain::cmd {

enum RawLink : uint32_t { kRawTcp, kRawUnix, kRawLinks };

// What the receiver does with each read of 256 KiB, while it is in the cache.
enum class Use { kNothing, kSum, kSumAndChecksum };

// The side that measures. What is received is added to an accumulator of `bytes`.
class WireLimits {
 public:
  // Makes the sockets and gives the child its ends.
  static Result<std::unique_ptr<WireLimits>> make(PeerChannel& child);

  // Memory on both sides for what follows.
  Status resize(size_t bytes);
  // Seconds for `bytes`, from the order to the last byte used.
  Result<double> stream(RawLink link, Use use, size_t bytes);
  // Adds memory that the child has written to the accumulator.
  double shared_sum();
  double copy();
  // Round trips of a bare Asio echo, in seconds.
  Result<std::vector<double>> echo(RawLink link, size_t bytes, size_t count);

  ~WireLimits();

 private:
  explicit WireLimits(PeerChannel& child) : child_(child) {}
  void unmap();

  PeerChannel& child_;
  net::UniqueFd sockets_[kRawLinks];
  Buffer accumulator_, other_, chunk_;
  const float* shared_ = nullptr;
};

// The child's half: obeys the orders that are about this.
class WireLimitsChild {
 public:
  static bool knows(Act act);
  Status obey(PeerChannel& parent, const Order& order, net::UniqueFd fd);
  ~WireLimitsChild();

 private:
  net::UniqueFd sockets_[kRawLinks], file_;
  float* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace dtrain::cmd
