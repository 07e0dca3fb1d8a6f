// The two processes of `dtrain benchmark wire`: one measures and gives orders, the other, its child, obeys. Orders go
// over a Unix-domain socket of their own, beside what is measured.
#pragma once

#include <cstdint>
#include <utility>

#include "base/result.h"
#include "net/asio/unique_fd.h"

namespace dtrain::cmd {

enum class Act : uint32_t {
  kDone,    // the child's answer
  kMemory,  // make `bytes` of memory and fill it
  kSocket,  // keep the attached socket as raw socket `link`
  kStream,  // write `bytes` of the memory into raw socket `link`
  kShare,   // answer with the memory as a file that both can map
  kEcho,    // send back what comes from raw socket `link`, messages of `bytes`, until there were `count`
  kDial,    // connect dtrain's link `link` to port `count`
  kTable,   // `count` tensors of `bytes`
  kPush,    // push all of them through `link`
  kPull,    // pull all of them
  kBounce,  // answer messages of `link` until told to stop
};

struct Order {
  Act act = Act::kDone;
  uint32_t link = 0;
  uint64_t bytes = 0, count = 0;
};

class PeerChannel {
 public:
  explicit PeerChannel(net::UniqueFd socket) : socket_(std::move(socket)) {}
  // A pair of connected ends.
  static Result<std::pair<net::UniqueFd, net::UniqueFd>> make_ends();

  // Errors (kPeerLost): the other process is gone.
  Status send(const Order& order, int fd = -1);
  Result<std::pair<Order, net::UniqueFd>> receive();
  // Sends the order and waits until it is done.
  Status obey(const Order& order, int fd = -1);
  // Waits for kDone; what came with it.
  Result<net::UniqueFd> await_done();

 private:
  net::UniqueFd socket_;
};

}  // namespace dtrain::cmd
