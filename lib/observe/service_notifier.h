// Says how this process is doing to whoever started it, in the datagrams of systemd's sd_notify(3): that training has
// begun, what it does now, that it still lives, that it ends. A notifier that was not opened says nothing.
//
// One thread at a time. No call blocks or fails: who does not read loses a status or a beat, never that training began.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace dtrain::observe {

class ServiceNotifier {
 public:
  ServiceNotifier() = default;
  // `address` is the path of a datagram socket, or "@name" of an abstract one. `watchdog`: without a beat for so long
  // the other side takes the process for hung.
  static Result<ServiceNotifier> open(const std::string& address, std::optional<Nanoseconds> watchdog);
  ServiceNotifier(ServiceNotifier&& other) noexcept;
  ServiceNotifier& operator=(ServiceNotifier&& other) noexcept;
  ~ServiceNotifier();  // the process ends, however it comes to that

  // Training has begun: once in the life of a process, however often it is called.
  void ready();
  // Of a text that nobody wants nothing needs to be made: it is at most one a second.
  bool wants_status(Instant now) const;
  void status(const std::string& text, Instant now);
  // To be called wherever there is progress: half of `watchdog` passes between two that are sent.
  void beat(Instant now);
  void stopping();

 private:
  enum class Ready { kNo, kOwed, kSaid };

  bool send(std::string assignments);

  int fd_ = -1;
  std::string address_;  // as the kernel has it: an abstract one begins with a zero
  std::optional<Nanoseconds> watchdog_;
  Ready ready_ = Ready::kNo;
  bool stopping_ = false;
  std::optional<Instant> status_at_, beat_at_;
  std::string status_;  // the last one
};

}  // namespace dtrain::observe
