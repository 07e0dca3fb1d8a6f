#include "watch/guest_desk.h"

#include <fmt/format.h>

#include "proto-free-wire/codec.h"

namespace dtrain::watch {
namespace {

// Of answers that a guest has not read, before it may ask for more.
constexpr size_t kMostUnread = 4u << 20;

}  // namespace

GuestDesk::GuestDesk(GuestDeskSetup setup, const ps::BlockTable& table, net::Transport& transport, Log& log)
    : setup_(std::move(setup)), table_(table), transport_(transport), log_(log), reads_(table, transport) {}

void GuestDesk::coordinate(std::function<RunPosition()> position,
                           std::function<void(int64_t version, const std::string& tensor)> on_put) {
  position_ = position;
  board_.emplace(setup_.tasks.size());
  master_.emplace(PutMasterSetup{setup_.server_ranks, std::move(position), std::move(on_put)}, table_, transport_,
                  log_);
}

void GuestDesk::serve(ps::ShardServer& server) {
  reads_.serve(server, *setup_.server_index);
  puts_.emplace(table_, *setup_.server_index, server.mode().lockstep, transport_, setup_.coordinator);
  server.watch(this);
}

void GuestDesk::on_connected(wire::Rank rank, Instant now) {
  if (wire::is_guest(rank)) guests_[rank] = {0, now};
}

void GuestDesk::on_lost(wire::Rank rank) {
  if (!wire::is_guest(rank)) {
    if (board_) board_->on_lost(rank);
    return;
  }
  guests_.erase(rank);
  reads_.on_lost(rank);
  if (puts_) puts_->on_lost(rank);
  if (master_) master_->on_lost(rank);
}

void GuestDesk::on_tick(Instant now) {
  for (auto& [guest, unread] : guests_) {
    const size_t bytes = transport_.queued_bytes(guest);
    if (bytes == 0 || bytes < unread.bytes) unread.since = now;
    unread.bytes = bytes;
    if (now - unread.since < kPatience) continue;
    unread.since = now;
    transport_.disconnect(guest, "it does not read what it asked for");
  }
  reads_.on_tick();
  if (master_) master_->look(now);
}

Status GuestDesk::on_message(wire::Rank from, const wire::Message& message, ByteSpan payload, Instant now) {
  if (wire::is_guest(from)) return on_guest_message(from, message, payload, now);
  if (const auto* m = std::get_if<wire::TaskStatus>(&message); m && board_) board_->on(from, *m, position_(), now);
  if (const auto* m = std::get_if<wire::PutStaged>(&message); m && master_) master_->on(from, *m);
  if (const auto* m = std::get_if<wire::PutOrder>(&message); m && puts_) {
    if (from != setup_.coordinator) return fail(ExitCode::kPeerLost, "only the coordinator sends PutOrder");
    puts_->on(*m);
  }
  return {};
}

Status GuestDesk::on_guest_message(wire::Rank guest, const wire::Message& message, ByteSpan payload, Instant now) {
  // After these a guest has something to read; before more of them it should.
  auto may_ask = [&]() -> Status {
    if (transport_.queued_bytes(guest) <= kMostUnread) return {};
    return fail(ExitCode::kPeerLost, "it asks without reading the answers");
  };
  if (const auto* m = std::get_if<wire::Read>(&message)) return reads_.on(guest, *m);
  if (const auto* m = std::get_if<wire::PutChunk>(&message)) {
    return puts_ ? puts_->on(guest, *m, payload)
                 : fail(ExitCode::kPeerLost, "it puts values, but nobody asked for any");
  }
  DTRAIN_TRY(may_ask());
  if (std::holds_alternative<wire::AskRun>(message)) {
    tell_run(guest);
  } else if (const auto* ask = std::get_if<wire::AskStanding>(&message)) {
    transport_.send(guest, reads_.standing(ask->request));
  } else if (const auto* put_wish = std::get_if<wire::Put>(&message)) {
    return put(guest, *put_wish, now);
  } else if (const auto* status = std::get_if<wire::AskStatus>(&message); status && board_) {
    board_->answer(guest, *status, position_(), now, transport_);
  } else {
    return fail(ExitCode::kPeerLost,
                fmt::format("it sent {}, which is not for this task", wire::name_of(wire::type_of(message))));
  }
  return {};
}

void GuestDesk::tell_run(wire::Rank guest) {
  transport_.send(guest, wire::RunInfo{setup_.run, setup_.self, static_cast<uint32_t>(setup_.tasks.size()),
                                       static_cast<uint32_t>(table_.parameters().size())});
  for (const wire::TaskPlace& task : setup_.tasks) transport_.send(guest, task);
  for (uint32_t i = 0; i < table_.parameters().size(); ++i) {
    const ParameterInfo& p = table_.parameters()[i];
    transport_.send(guest, wire::NamedTensor{i, p.name, p.shape.dims(), static_cast<uint8_t>(p.kind)});
  }
}

Status GuestDesk::put(wire::Rank guest, const wire::Put& put, Instant now) {
  auto no = [&](const char* why) -> Status {
    transport_.send(guest, wire::PutDone{put.put, -1, why});
    return {};
  };
  if (!setup_.allow_put)
    return no("this task takes no values from guests: start the run's tasks with --allow_put if they should");
  if (!puts_) return no(setup_.server_index ? "the run has not begun" : "this task holds no tensors");
  if (master_ && !master_->on(guest, put, now)) return {};
  return puts_->on(guest, put);
}

}  // namespace dtrain::watch
