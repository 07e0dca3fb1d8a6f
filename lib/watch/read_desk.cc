#include "watch/read_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace dtrain::watch {

void ReadDesk::serve(const ps::ShardServer& server, uint32_t index) {
  server_ = &server;
  index_ = index;
  server_bytes_ = static_cast<size_t>(table_.server_elements(index)) * sizeof(float);
}

wire::Standing ReadDesk::standing(uint32_t request) const {
  if (!server_) return {request, -1, 1};
  const consistency::Mode& mode = server_->mode();
  return {request, version(), mode.lockstep ? static_cast<uint32_t>(mode.stride) : 0};
}

Status ReadDesk::on(wire::Rank guest, const wire::Read& read) {
  std::set<int64_t> seen;
  for (const int64_t tensor : read.tensors) {
    if (tensor < 0 || tensor >= static_cast<int64_t>(table_.parameters().size()))
      return fail(ExitCode::kPeerLost, fmt::format("it asked for tensor {}, which there is not", tensor));
    if (!seen.insert(tensor).second)
      return fail(ExitCode::kPeerLost, fmt::format("it asked for tensor {} twice at once", tensor));
    if (table_.parameters()[static_cast<size_t>(tensor)].kind == ParameterKind::kSparse)
      return fail(ExitCode::kPeerLost,
                  fmt::format("it asked for tensor {}, a sparse table, which is not read as a whole", tensor));
    if (read.gradient && table_.parameters()[static_cast<size_t>(tensor)].kind != ParameterKind::kTrainable)
      return fail(ExitCode::kPeerLost, fmt::format("it asked for the gradient of tensor {}, which has none", tensor));
  }
  if (read.version < (read.gradient ? 0 : -1))
    return fail(ExitCode::kPeerLost, fmt::format("it asked for version {}", read.version));
  if (read.gradient && server_ && !server_->mode().lockstep)
    return fail(ExitCode::kPeerLost, "it asked for the gradient of a step, of which this run has none");
  remove(guest);
  Reading reading{guest, read};
  if (!server_) {
    gone(reading);
    return {};
  }
  for (const int64_t tensor : read.tensors) {
    for (const uint32_t id : table_.of_parameter(static_cast<ParameterIndex>(tensor))) {
      if (table_.block(id).server != index_) continue;
      reading.parts.push_back({.block = id});
      reading.bytes += static_cast<size_t>(table_.block(id).elements) * sizeof(float);
    }
  }
  reading.missing = reading.parts.size();
  readings_.push_back(std::move(reading));
  begin_waiting();
  return {};
}

// In their order: a large one that waits for room is not overtaken for ever by small ones.
void ReadDesk::begin_waiting() {
  for (bool more = true; more;) {
    more = false;
    const auto next = std::find_if(readings_.begin(), readings_.end(), [](const Reading& r) { return !r.held; });
    if (next == readings_.end()) return;
    const size_t held = held_bytes();
    if (held > 0 && held + next->bytes > server_bytes_) return;
    more = true;
    const wire::Rank guest = next->guest;
    begin(*next);
    if (next->missing == 0) remove(guest);
  }
}

// Leaves missing at 0 where it is over.
void ReadDesk::begin(Reading& reading) {
  reading.held = true;
  for (Part& part : reading.parts) {
    const bool frozen = table_.block(part.block).frozen();
    const int64_t version = server_->block_version(part.block);
    const consistency::Mode& mode = server_->mode();
    part.version = reading.read.version >= 0 ? reading.read.version : version;
    if (reading.read.gradient) {
      // Of the step that this block is at, and of those that workers may be ahead, sums may have come by already.
      if (part.version >= version + mode.window * mode.stride) continue;
    } else {
      part.values = server_->values_at(part.block, part.version);
      if (part.values) --reading.missing;
      if (part.values || (!frozen && part.version > version)) continue;
    }
    gone(reading);
    reading.missing = 0;
    return;
  }
  if (reading.missing == 0) finish(reading);
}

void ReadDesk::for_each_held(const std::function<bool(Reading&)>& f) {
  bool freed = false;
  for (auto r = readings_.begin(); r != readings_.end();) {
    const bool over = r->held && f(*r);
    freed |= over;
    r = over ? readings_.erase(r) : r + 1;
  }
  if (freed) begin_waiting();
}

void ReadDesk::on_root(uint32_t block, uint32_t chunk, int64_t step, std::span<const float> root) {
  if (readings_.empty()) return;
  for_each_held([&](Reading& r) {
    if (!r.read.gradient || r.read.version != step) return false;
    const auto part = std::find_if(r.parts.begin(), r.parts.end(), [&](const Part& p) { return p.block == block; });
    if (part == r.parts.end() || part->values) return false;
    const ps::Block& b = table_.block(block);
    if (!part->gradient) part->gradient = std::make_shared<Buffer>(static_cast<size_t>(b.elements) * sizeof(float));
    float* to = part->gradient->as<float>().data() + static_cast<int64_t>(chunk) * kChunkElements;
    for (size_t i = 0; i < root.size(); ++i) to[i] = root[i] / static_cast<float>(server_->pushes_per_version());
    if (++part->chunks < b.chunks()) return false;
    part->values = part->gradient;
    if (--r.missing > 0) return false;
    finish(r);
    return true;
  });
}

void ReadDesk::on_commit(uint32_t block, int64_t version) {
  if (readings_.empty()) return;
  for_each_held([&](Reading& r) {
    const auto part = std::find_if(r.parts.begin(), r.parts.end(), [&](const Part& p) { return p.block == block; });
    if (part == r.parts.end() || part->values) return false;
    if (r.read.gradient ? r.read.version >= version : r.read.version > version) return false;
    if (!r.read.gradient && r.read.version == version) {
      part->values = server_->values_at(block, version);
      if (--r.missing > 0) return false;
      finish(r);
    } else {
      gone(r);
    }
    return true;
  });
}

void ReadDesk::finish(const Reading& reading) {
  int64_t elements = 0;
  for (const Part& part : reading.parts) {
    const ps::Block& b = table_.block(part.block);
    for (int64_t first = 0; first < b.elements; first += kChunkElements) {
      const auto n = static_cast<size_t>(std::min<int64_t>(kChunkElements, b.elements - first));
      const float* from = part.values->as<const float>().data() + first;
      transport_.send(
          reading.guest,
          wire::TensorChunk{reading.read.request, static_cast<uint32_t>(b.parameter), part.version, b.first + first},
          {std::as_bytes(std::span(from, n)), part.values});
    }
    elements += b.elements;
  }
  transport_.send(reading.guest,
                  wire::ReadDone{reading.read.request, false, elements, reading.read.version, version()});
  sending_[reading.guest] = transport_.queued_bytes(reading.guest);
}

void ReadDesk::gone(const Reading& reading) {
  transport_.send(reading.guest, wire::ReadDone{reading.read.request, true, 0, reading.read.version, version()});
}

size_t ReadDesk::held_bytes() const {
  size_t held = 0;
  for (const Reading& r : readings_) held += r.held ? r.bytes : 0;
  for (const auto& [guest, queued] : sending_) held += queued;
  return held;
}

void ReadDesk::on_tick() {
  for (auto s = sending_.begin(); s != sending_.end();) {
    s->second = transport_.queued_bytes(s->first);
    s = s->second == 0 ? sending_.erase(s) : std::next(s);
  }
  begin_waiting();
}

void ReadDesk::remove(wire::Rank guest) {
  std::erase_if(readings_, [&](const Reading& r) { return r.guest == guest; });
}

void ReadDesk::on_lost(wire::Rank guest) {
  remove(guest);
  sending_.erase(guest);
  begin_waiting();
}

}  // namespace dtrain::watch
