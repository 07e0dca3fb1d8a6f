// Messages under way in a simulated cluster, in little memory: thousands of workers have millions of them. The frequent
// ones are kept as numbers, others as they are. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "proto-free-wire/message.h"

namespace dtrain::sim::scale {

constexpr uint32_t kNone = UINT32_MAX;

struct Frame {
  Instant at = 0;     // when it has left its sender; then, when all of it has arrived
  int64_t step = 0;   // or the version
  int64_t other = 0;  // Absorbed's version
  wire::Rank from = 0, to = 0;
  uint32_t block = 0, first = 0, last = 0;
  uint32_t chunk = 0;  // or chunks; of what is kept as it is, its place; of Absorbed, whether it was dropped
  uint32_t payload = 0, bytes = 0;  // of tensors; of header and fields
  uint32_t next = kNone;            // in a list
  wire::MessageType type{};
};

// Frames by number, and messages that are kept whole.
class Frames {
 public:
  Frames();

  uint32_t make(wire::Rank from, wire::Rank to, wire::Message&& message, size_t payload);
  Frame& operator[](uint32_t frame) { return frames_[frame]; }
  // The message again; the frame's number is free for another.
  wire::Message take(uint32_t frame);
  size_t size() const { return frames_.size(); }  // the most that were under way

 private:
  std::vector<Frame> frames_;
  std::vector<wire::Message> whole_;
  std::vector<uint32_t> free_whole_;
  uint32_t free_ = kNone;
  std::vector<uint32_t> sizes_;  // header and fields of the frequent messages, by type
};

// First in, first out; a list through Frame::next.
struct FrameList {
  uint32_t first = kNone, last = kNone;

  bool empty() const { return first == kNone; }
  void push(Frames& frames, uint32_t frame) {
    frames[frame].next = kNone;
    if (empty())
      first = frame;
    else
      frames[last].next = frame;
    last = frame;
  }
  uint32_t pop(Frames& frames) {
    const uint32_t frame = first;
    first = frames[frame].next;
    return frame;
  }
};

}  // namespace dtrain::sim::scale
