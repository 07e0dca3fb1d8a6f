// A server has written, synced and closed its shard, or could not.
#pragma once

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct SnapshotDone {
  static constexpr MessageType kType = MessageType::kSnapshotDone;

  int64_t version = 0;
  std::string file;  // name in the folder
  uint64_t bytes = 0;
  Digest sha256{};
  std::string error;  // empty: written

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("version", m.version);
    v("file", m.file);
    v("bytes", m.bytes);
    v("sha256", m.sha256);
    v("error", m.error);
  }
  bool operator==(const SnapshotDone&) const = default;
};

}  // namespace dtrain::wire
