#include "watch/consistent_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace dtrain::watch {
namespace {

// After so long without an answer it asks again where all stand.
constexpr Nanoseconds kLookAgain = 500 * kMillisecond;
constexpr int64_t kFarthest = 1 << 20;

}  // namespace

ConsistentRead::ConsistentRead(Options options, Send send, Instant now)
    : options_(std::move(options)), send_(std::move(send)), servers_(options_.servers) {
  for (const Wanted& w : options_.wanted) values_.emplace_back(static_cast<size_t>(w.elements) * sizeof(float));
  filled_.resize(values_.size());
  if (options_.gradient) ahead_ = 1;
  ask_standing(now);
}

void ConsistentRead::ask_standing(Instant now) {
  ++standing_request_;
  asked_at_ = now;
  for (size_t s = 0; s < servers_.size(); ++s) {
    servers_[s].standing.reset();
    send_(s, wire::AskStanding{standing_request_});
  }
}

int64_t ConsistentRead::lowest() const {
  int64_t v = servers_.front().standing->version;
  for (const Server& s : servers_) v = std::min(v, s.standing->version);
  return v;
}

int64_t ConsistentRead::highest() const {
  int64_t v = servers_.front().standing->version;
  for (const Server& s : servers_) v = std::max(v, s.standing->version);
  return v;
}

// All have said where they stand.
Status ConsistentRead::choose(Instant now) {
  const int64_t low = lowest(), stride = servers_.front().standing->stride;
  const bool moved = std::exchange(stood_at_, low) != low;
  if (low < 0) return {};  // the run has not begun; on_tick asks again
  if (options_.gradient && stride == 0)
    return fail(ExitCode::kUsage,
                "this run has no gradient of a step: its workers' gradients are applied one by one as they come");
  if (options_.version && stride == 0)
    return fail(ExitCode::kUsage, "the blocks of this run's tensors have versions of their own: leave --version out");
  if (looking_again_) {
    looking_again_ = false;
    // It goes on, and will come to the version; or it must (a gradient is made by a step only).
    if (moved || options_.gradient || options_.version) return {};
    ahead_ = 0;
  }
  if (options_.version) {
    read(*options_.version, now);
  } else if (stride == 0) {
    read(-1, now);
  } else {
    read(ahead_ == 0 ? low : highest() + ahead_ * stride, now);
  }
  return {};
}

void ConsistentRead::read(int64_t version, Instant now) {
  phase_ = Phase::kReading;
  target_ = version;
  ++request_;
  asked_at_ = now;
  std::fill(filled_.begin(), filled_.end(), 0);
  wire::Read message{request_, options_.gradient, version, {}};
  for (const Wanted& w : options_.wanted) message.tensors.push_back(w.tensor);
  for (size_t s = 0; s < servers_.size(); ++s) {
    servers_[s].done.reset();
    servers_[s].received = 0;
    send_(s, message);
  }
}

Status ConsistentRead::on_message(size_t server, const wire::Message& message, ByteSpan payload, Instant now) {
  if (done_) return {};
  if (const auto* m = std::get_if<wire::Standing>(&message)) {
    if (m->request != standing_request_) return {};
    servers_[server].standing = *m;
    const bool all = std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.standing; });
    return all ? choose(now) : Status();
  }
  if (const auto* m = std::get_if<wire::TensorChunk>(&message)) return on(server, *m, payload);
  if (const auto* m = std::get_if<wire::ReadDone>(&message)) return on(server, *m, now);
  return {};
}

Status ConsistentRead::on(size_t server, const wire::TensorChunk& m, ByteSpan payload) {
  if (phase_ != Phase::kReading || m.request != request_) return {};
  const auto wanted = std::find_if(options_.wanted.begin(), options_.wanted.end(),
                                   [&](const Wanted& w) { return w.tensor == m.tensor; });
  const auto n = static_cast<int64_t>(payload.size() / sizeof(float));
  if (wanted == options_.wanted.end() || m.first < 0 || m.first > wanted->elements || n > wanted->elements - m.first ||
      (target_ >= 0 && m.version != target_))
    return fail(ExitCode::kBug, fmt::format("a server sent elements of tensor {} at version {} that nobody asked for",
                                            m.tensor, m.version));
  const auto i = static_cast<size_t>(wanted - options_.wanted.begin());
  std::memcpy(values_[i].as<float>().data() + m.first, payload.data(), payload.size());
  filled_[i] += n;
  servers_[server].received += n;
  return look_if_complete();
}

Status ConsistentRead::on(size_t server, const wire::ReadDone& m, Instant now) {
  if (phase_ != Phase::kReading || m.request != request_) return {};
  if (!m.gone) {
    servers_[server].done = m;
    return look_if_complete();
  }
  if (options_.version)
    return fail(ExitCode::kUsage,
                options_.gradient
                    ? fmt::format("step {} is over or under way, the run is at {}: its gradient can only be asked for "
                                  "before",
                                  *options_.version, m.newest)
                    : fmt::format("version {} is no longer kept, the run is at {}: a checkpoint may hold it",
                                  *options_.version, m.newest));
  phase_ = Phase::kStanding;
  looking_again_ = false;
  ahead_ = std::min(ahead_ == 0 ? 1 : 2 * ahead_, kFarthest);
  ask_standing(now);
  return {};
}

Status ConsistentRead::look_if_complete() {
  for (const Server& s : servers_)
    if (!s.done || s.received < s.done->elements) return {};
  for (size_t i = 0; i < filled_.size(); ++i) {
    if (filled_[i] != options_.wanted[i].elements)
      return fail(ExitCode::kBug, fmt::format("the servers sent {} of the {} elements of '{}'", filled_[i],
                                              options_.wanted[i].elements, options_.wanted[i].name));
  }
  done_ = true;
  return {};
}

void ConsistentRead::on_tick(Instant now) {
  if (done_ || now - asked_at_ < kLookAgain) return;
  // Nothing to be asked while values come in, however long they take.
  if (phase_ == Phase::kReading &&
      std::all_of(servers_.begin(), servers_.end(), [](const Server& s) { return s.done || s.received > 0; }))
    return;
  looking_again_ = phase_ == Phase::kReading;
  ask_standing(now);
}

std::string ConsistentRead::situation() const {
  if (stood_at_ < 0) return "it has not begun";
  return fmt::format("it is at version {}", stood_at_);
}

}  // namespace dtrain::watch
