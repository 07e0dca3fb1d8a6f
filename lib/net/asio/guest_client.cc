#include "net/asio/guest_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <utility>

#include "net/asio/connection.h"
#include "net/asio/dialer.h"
#include "net/asio/durations.h"
#include "net/handshake.h"
#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame.h"

namespace dtrain::net {
namespace {

using SteadyClock = std::chrono::steady_clock;
// How often a guest shows that it lives; a task may be told to lose peers that are silent for a second.
constexpr std::chrono::milliseconds kHeartbeat{250};
constexpr size_t kMostControl = 64u << 20;
constexpr size_t kMostTensors = size_t{256} << 20;  // of a put

}  // namespace

class GuestClient::Impl {
 public:
  Impl(std::string program, ProofMeans proof) : program_(std::move(program)), proof_(std::move(proof)) {}
  ~Impl() {
    for (const auto& link : links_)
      if (link->connection) link->connection->close();
  }

  Result<size_t> connect(const Endpoint& endpoint, Nanoseconds timeout);
  void send(size_t link, wire::Message message, wire::Payload payload) {
    Link& l = *links_.at(link);
    if (!l.closed) l.connection->send(std::move(message), std::move(payload));
  }
  std::optional<GuestEvent> next(Nanoseconds timeout) {
    run_until(timeout, [this] { return !events_.empty(); });
    if (events_.empty()) return std::nullopt;
    GuestEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  struct Link final : Connection::Owner {
    Link(Impl& client_in, size_t number_in) : client(client_in), number(number_in) {}

    void on_frame(const wire::Message& message, ByteSpan payload) override {
      if (!welcome && !refuse) {
        if (proof && !proof->proven()) return on_challenge(message);
        if (std::holds_alternative<wire::Welcome>(message)) {
          welcome = true;
          return connection->trust(false);
        }
        if (const auto* no = std::get_if<wire::Refuse>(&message)) {
          refuse = *no;
          return;
        }
        connection->close();
        return on_closed("it answered with " + wire::name_of(wire::type_of(message)));
      }
      if (std::holds_alternative<wire::Heartbeat>(message)) return;
      client.events_.push_back({number, message, {payload.begin(), payload.end()}, ""});
    }
    // Of a task that has proven nothing yet.
    void on_challenge(const wire::Message& message) {
      std::optional<wire::Proof> answer;
      if (const auto* challenge = std::get_if<wire::Challenge>(&message)) answer = proof->answer(*challenge);
      if (answer) return connection->send(*answer, {});
      refuse = wire::Refuse{static_cast<uint8_t>(ExitCode::kAuthentication), "guest",
                            "has no secret, or another one than this guest: give it the --secret_file of the run", ""};
    }
    void on_foreign_version(uint16_t version) override { foreign = version; }
    void on_closed(const std::string& why) override {
      closed = true;
      reason = why;
      if (welcome) client.events_.push_back({number, wire::Heartbeat{}, {}, why});
    }

    Impl& client;
    const size_t number;
    std::shared_ptr<Connection> connection;
    std::optional<DiallerProof> proof;
    bool welcome = false, closed = false;
    std::optional<wire::Refuse> refuse;
    std::optional<uint16_t> foreign;
    std::string reason;
  };

  // Turns the loop until `done()`, or for as long as `timeout`.
  void run_until(Nanoseconds timeout, const std::function<bool()>& done) {
    const auto end = SteadyClock::now() + std::chrono::nanoseconds(timeout);
    while (!done()) {
      const auto now = SteadyClock::now();
      if (now >= end) return;
      if (now >= beat_at_) {
        beat_at_ = now + kHeartbeat;
        for (const auto& link : links_)
          if (link->welcome && !link->closed && link->connection->queued_bytes() == 0)
            link->connection->send(wire::Heartbeat{}, {});
      }
      loop_.restart();
      loop_.run_one_until(std::min(end, beat_at_));
    }
  }

  const std::string program_;
  const ProofMeans proof_;
  asio::io_context loop_{1};
  // Whoever waits for work finds some: run_one_until would return at once where there is none.
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(loop_);
  std::vector<std::unique_ptr<Link>> links_;
  std::deque<GuestEvent> events_;
  SteadyClock::time_point beat_at_;
};

Result<size_t> GuestClient::Impl::connect(const Endpoint& endpoint, Nanoseconds timeout) {
  const std::string at = to_string(endpoint);
  const auto began = SteadyClock::now();
  std::optional<Result<UniqueFd>> socket;
  const Dialer dialer(loop_, endpoint, timeout, true, [&](Result<UniqueFd> got) { socket = std::move(got); });
  run_until(timeout, [&] { return socket.has_value(); });
  if (!socket) return fail(ExitCode::kPeerLost, fmt::format("{} does not answer within {}", at, seconds(timeout)));
  if (!*socket)
    return fail(ExitCode::kPeerLost, fmt::format("nobody is there: {}. Is the run going, and is this where one of its "
                                                 "tasks listens?",
                                                 socket->error().message));

  Link& link = *links_.emplace_back(std::make_unique<Link>(*this, links_.size()));
  link.connection = Connection::make(loop_, std::move(**socket), {kMostControl, kMostTensors}, nullptr, link);
  link.connection->start();
  wire::Guest greeting{program_, {}};
  if (proof_.secret) {
    greeting.nonce = proof_.nonce();
    link.proof.emplace(proof_.secret, greeting, std::nullopt);
  }
  link.connection->send(greeting, {});
  const Nanoseconds left = timeout - (SteadyClock::now() - began).count();
  run_until(std::max<Nanoseconds>(left, kMillisecond),
            [&] { return link.welcome || link.closed || link.refuse || link.foreign; });
  if (link.welcome) return link.number;

  if (!link.closed) link.connection->close();
  link.closed = true;
  if (link.foreign || (link.refuse && link.refuse->field == "protocol"))
    return fail(
        ExitCode::kUsage,
        fmt::format("{} speaks version {} of the protocol, this dtrain ({}) version {}: use the program that the "
                    "run was started with",
                    at, link.foreign ? std::to_string(*link.foreign) : printable(link.refuse->ours), program_,
                    wire::kProtocolVersion));
  if (link.refuse)
    return fail(link.refuse->exit_code == 0 ? ExitCode::kUsage : static_cast<ExitCode>(link.refuse->exit_code),
                fmt::format("{} does not let this guest in: it {}", at, printable(link.refuse->ours)));
  if (link.reason.empty())
    return fail(ExitCode::kPeerLost, fmt::format("{} took the connection, but has said nothing within {}: is it a task "
                                                 "of dtrain?",
                                                 at, seconds(timeout)));
  return fail(ExitCode::kPeerLost,
              fmt::format("{} does not answer as a task of dtrain does: {}", at, printable(link.reason)));
}

GuestClient::GuestClient(std::string program, ProofMeans proof)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(proof))) {}
GuestClient::~GuestClient() = default;
Result<size_t> GuestClient::connect(const Endpoint& endpoint, Nanoseconds timeout) {
  return impl_->connect(endpoint, timeout);
}
void GuestClient::send(size_t link, wire::Message message, wire::Payload payload) {
  impl_->send(link, std::move(message), std::move(payload));
}
std::optional<GuestEvent> GuestClient::next(Nanoseconds timeout) { return impl_->next(timeout); }

}  // namespace dtrain::net
