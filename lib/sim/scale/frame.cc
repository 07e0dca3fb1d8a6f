#include "sim/scale/frame.h"

#include "proto-free-wire/codec.h"
#include "proto-free-wire/frame.h"

namespace dtrain::sim::scale {
namespace {

// Of a frequent message its numbers; false for the others.
struct Packer {
  Frame& f;
  bool operator()(const wire::Pull& m) const { return f.block = m.block, f.step = m.version, true; }
  bool operator()(const wire::ParameterChunk& m) const {
    return f.block = m.block, f.step = m.version, f.chunk = m.chunk, true;
  }
  bool operator()(const wire::Offer& m) const { return node(m); }
  bool operator()(const wire::Take& m) const { return f.chunk = m.chunks, node(m); }
  bool operator()(const wire::NodeChunk& m) const { return f.chunk = m.chunk, node(m); }
  bool operator()(const wire::Absorbed& m) const { return f.other = m.version, f.chunk = m.dropped, node(m); }
  template <typename M>
  bool operator()(const M&) const {
    return false;
  }
  template <typename M>
  bool node(const M& m) const {
    return f.block = m.block, f.step = m.step, f.first = m.first, f.last = m.last, true;
  }
};

}  // namespace

Frames::Frames() {
  for (const wire::MessageType type : wire::message_types()) {
    const auto id = static_cast<size_t>(type);
    if (sizes_.size() <= id) sizes_.resize(id + 1);
    sizes_[id] = static_cast<uint32_t>(wire::kHeaderBytes + wire::encode(*wire::make_default(type)).size());
  }
}

uint32_t Frames::make(wire::Rank from, wire::Rank to, wire::Message&& message, size_t payload) {
  if (free_ == kNone) {
    frames_.emplace_back();
    free_ = static_cast<uint32_t>(frames_.size() - 1);
  }
  const uint32_t number = free_;
  Frame& f = frames_[number];
  free_ = f.next;
  f = Frame{};
  f.from = from;
  f.to = to;
  f.payload = static_cast<uint32_t>(payload);
  f.type = wire::type_of(message);
  f.bytes = sizes_[static_cast<size_t>(f.type)];
  if (std::visit(Packer{f}, message)) return number;
  f.bytes = static_cast<uint32_t>(wire::kHeaderBytes + wire::encode(message).size());
  if (free_whole_.empty()) {
    free_whole_.push_back(static_cast<uint32_t>(whole_.size()));
    whole_.emplace_back();
  }
  f.chunk = free_whole_.back();
  free_whole_.pop_back();
  whole_[f.chunk] = std::move(message);
  return number;
}

wire::Message Frames::take(uint32_t number) {
  Frame& f = frames_[number];
  f.next = free_;
  free_ = number;
  switch (f.type) {
    case wire::MessageType::kPull:
      return wire::Pull{.block = f.block, .version = f.step};
    case wire::MessageType::kParameterChunk:
      return wire::ParameterChunk{.block = f.block, .version = f.step, .chunk = f.chunk};
    case wire::MessageType::kOffer:
      return wire::Offer{.step = f.step, .block = f.block, .first = f.first, .last = f.last};
    case wire::MessageType::kTake:
      return wire::Take{.step = f.step, .block = f.block, .first = f.first, .last = f.last, .chunks = f.chunk};
    case wire::MessageType::kNodeChunk:
      return wire::NodeChunk{.step = f.step, .block = f.block, .first = f.first, .last = f.last, .chunk = f.chunk};
    case wire::MessageType::kAbsorbed:
      return wire::Absorbed{.step = f.step,
                            .block = f.block,
                            .first = f.first,
                            .last = f.last,
                            .version = f.other,
                            .dropped = f.chunk != 0};
    default:
      free_whole_.push_back(f.chunk);
      return std::move(whole_[f.chunk]);
  }
}

}  // namespace dtrain::sim::scale
