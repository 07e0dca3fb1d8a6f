#include "watch/put_master.h"

namespace dtrain::watch {
namespace {

// From the wish until all servers have the values.
constexpr Nanoseconds kLongest = 120 * kSecond;

}  // namespace

bool PutMaster::on(wire::Rank guest, const wire::Put& put, Instant now) {
  auto no = [&](const std::string& why) {
    outbox_.send(guest, wire::PutDone{put.put, -1, why});
    return false;
  };
  if (setup_.position().over) return no("the run is over");
  if (under_way_) return no("another put is under way; try again");
  if (put.tensor >= table_.parameters().size()) return no("there is no such tensor");
  if (table_.parameters()[put.tensor].kind == ParameterKind::kFrozen)
    return no("it is frozen: workers have read it once and for all");
  if (table_.parameters()[put.tensor].kind == ParameterKind::kSparse)
    return no("it is a sparse table, of which servers hold rows, not elements");
  UnderWay u{guest, put, {}, {}, now + kLongest};
  for (const uint32_t id : table_.of_parameter(static_cast<ParameterIndex>(put.tensor)))
    u.servers.insert(setup_.server_ranks[table_.block(id).server]);
  under_way_ = std::move(u);
  return true;
}

void PutMaster::on(wire::Rank server, const wire::PutStaged& staged) {
  if (!under_way_ || under_way_->put.put != staged.put) {
    outbox_.send(server, wire::PutOrder{staged.put, -1});  // it was given up meanwhile
    return;
  }
  UnderWay& u = *under_way_;
  if (!u.servers.contains(server)) return;
  u.staged.insert(server);
  if (u.staged.size() < u.servers.size() || u.version >= 0) return;
  const RunPosition at = setup_.position();
  if (at.over || at.rated >= at.steps) return give_up("the run has no step left that could end with it");
  order(at.rated + 1);
}

void PutMaster::order(int64_t version) {
  UnderWay& u = *under_way_;
  u.version = version;
  for (const wire::Rank server : u.servers) outbox_.send(server, wire::PutOrder{u.put.put, version});
  if (version >= 0)
    log_.warning("a guest replaces '{}' at step {}: from there on this run is no longer what its run file says",
                 table_.parameters()[u.put.tensor].name, version);
}

void PutMaster::give_up(const std::string& why) {
  order(-1);
  outbox_.send(under_way_->guest, wire::PutDone{under_way_->put.put, -1, why});
  under_way_.reset();
}

void PutMaster::on_lost(wire::Rank guest) {
  if (under_way_ && under_way_->guest == guest && under_way_->version < 0) give_up("it has left");
}

void PutMaster::look(Instant now) {
  if (!under_way_) return;
  const RunPosition at = setup_.position();
  const int64_t version = under_way_->version;
  if (version >= 0 && at.step >= version) {
    setup_.on_put(version, table_.parameters()[under_way_->put.tensor].name);
    outbox_.send(under_way_->guest, wire::PutDone{under_way_->put.put, version, ""});
    under_way_.reset();
  } else if (at.over) {
    give_up("the run ended before");
  } else if (version < 0 && now >= under_way_->until) {
    give_up("the servers did not get all of it in time");
  }
}

}  // namespace dtrain::watch
