// A task of the run and where it listens.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct TaskPlace {
  static constexpr MessageType kType = MessageType::kTaskPlace;

  uint32_t rank = 0;
  std::string name;       // "/job:ps/task:0"
  std::string address;    // "10.0.0.1:2500"
  bool computes = false;  // has the worker role
  bool serves = false;    // holds parameters

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("rank", m.rank);
    v("name", m.name);
    v("address", m.address);
    v("computes", m.computes);
    v("serves", m.serves);
  }
  bool operator==(const TaskPlace&) const = default;
};

}  // namespace dtrain::wire
