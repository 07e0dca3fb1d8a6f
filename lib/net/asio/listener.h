// Accepts connections at a bound port, and at the abstract Unix-domain twin of each of its addresses, from processes of
// the same user. Belongs to the loop's thread. When the process has no file descriptor left it waits a moment and goes
// on; connections wait in the kernel meanwhile.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "base/result.h"
#include "net/asio/bound_port.h"
#include "net/asio/unique_fd.h"

namespace asio {
class io_context;
}

namespace dtrain::net {

class Listener {
 public:
  using OnAccept = std::function<void(UniqueFd)>;

  // Listens from now on; accepts when start() is called. Error (kUsage): someone else listens at this port.
  static Result<std::unique_ptr<Listener>> listen(asio::io_context& loop, BoundPort port, Log& log);
  ~Listener();

  void start(OnAccept on_accept);
  // The port is free when this returns.
  void close();

 private:
  struct Socket;
  struct State;
  explicit Listener(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace dtrain::net
