// One attempt to connect to an endpoint: its name is resolved, then each of its addresses is tried in turn; one that
// belongs to this host first by its Unix-domain twin. Belongs to the loop's thread.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "net/asio/unique_fd.h"
#include "net/endpoint.h"

namespace asio {
class io_context;
}

namespace dtrain::net {

class Dialer {
 public:
  // The connected socket, or what was tried and what came back: "127.0.0.1:2500 (Connection refused)".
  using OnDone = std::function<void(Result<UniqueFd>)>;

  // Calls `on_done` once, later, unless this object is destroyed before. `timeout` is for each address. Without
  // `host_sockets` TCP is the only way.
  Dialer(asio::io_context& loop, const Endpoint& endpoint, Nanoseconds timeout, bool host_sockets, OnDone on_done);
  ~Dialer();
  // After an error: every address has answered that nobody listens there.
  bool refused() const;
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

 private:
  struct Attempt;
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace dtrain::net
