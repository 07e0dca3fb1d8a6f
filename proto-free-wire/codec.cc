#include "proto-free-wire/codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

namespace dtrain::wire {
namespace {

template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

const char* name_of_known(MessageType type) {
  switch (type) {
    case MessageType::kHello:
      return "Hello";
    case MessageType::kWelcome:
      return "Welcome";
    case MessageType::kRefuse:
      return "Refuse";
    case MessageType::kHeartbeat:
      return "Heartbeat";
    case MessageType::kMemoryOffered:
      return "MemoryOffered";
    case MessageType::kMemoryShared:
      return "MemoryShared";
    case MessageType::kMemoryGone:
      return "MemoryGone";
    case MessageType::kMemoryRead:
      return "MemoryRead";
    case MessageType::kChallenge:
      return "Challenge";
    case MessageType::kJoin:
      return "Join";
    case MessageType::kBegin:
      return "Begin";
    case MessageType::kReady:
      return "Ready";
    case MessageType::kAssign:
      return "Assign";
    case MessageType::kRates:
      return "Rates";
    case MessageType::kCommitted:
      return "Committed";
    case MessageType::kNormPartial:
      return "NormPartial";
    case MessageType::kNormFactor:
      return "NormFactor";
    case MessageType::kSnapshot:
      return "Snapshot";
    case MessageType::kSnapshotDone:
      return "SnapshotDone";
    case MessageType::kShardPart:
      return "ShardPart";
    case MessageType::kWorkDone:
      return "WorkDone";
    case MessageType::kWorkerRates:
      return "WorkerRates";
    case MessageType::kVectorOrder:
      return "VectorOrder";
    case MessageType::kVectorDots:
      return "VectorDots";
    case MessageType::kMetricNode:
      return "MetricNode";
    case MessageType::kStop:
      return "Stop";
    case MessageType::kStopped:
      return "Stopped";
    case MessageType::kFailure:
      return "Failure";
    case MessageType::kOffer:
      return "Offer";
    case MessageType::kTake:
      return "Take";
    case MessageType::kNodeChunk:
      return "NodeChunk";
    case MessageType::kAbsorbed:
      return "Absorbed";
    case MessageType::kPull:
      return "Pull";
    case MessageType::kParameterChunk:
      return "ParameterChunk";
    case MessageType::kGone:
      return "Gone";
    case MessageType::kStageValue:
      return "StageValue";
    case MessageType::kStageDone:
      return "StageDone";
    case MessageType::kRowPull:
      return "RowPull";
    case MessageType::kRows:
      return "Rows";
    case MessageType::kRowsGone:
      return "RowsGone";
    case MessageType::kRowPush:
      return "RowPush";
    case MessageType::kRowsTaken:
      return "RowsTaken";
    case MessageType::kGuest:
      return "Guest";
    case MessageType::kAskRun:
      return "AskRun";
    case MessageType::kRunInfo:
      return "RunInfo";
    case MessageType::kTaskPlace:
      return "TaskPlace";
    case MessageType::kNamedTensor:
      return "NamedTensor";
    case MessageType::kAskStanding:
      return "AskStanding";
    case MessageType::kStanding:
      return "Standing";
    case MessageType::kRead:
      return "Read";
    case MessageType::kTensorChunk:
      return "TensorChunk";
    case MessageType::kReadDone:
      return "ReadDone";
    case MessageType::kPut:
      return "Put";
    case MessageType::kPutRanges:
      return "PutRanges";
    case MessageType::kPutChunk:
      return "PutChunk";
    case MessageType::kPutStaged:
      return "PutStaged";
    case MessageType::kPutOrder:
      return "PutOrder";
    case MessageType::kPutDone:
      return "PutDone";
    case MessageType::kTaskStatus:
      return "TaskStatus";
    case MessageType::kAskStatus:
      return "AskStatus";
    case MessageType::kStatusRow:
      return "StatusRow";
    case MessageType::kStatusEnd:
      return "StatusEnd";
    case MessageType::kProof:
      return "Proof";
  }
  return nullptr;
}

// -- bytes out --

struct Writer {
  std::vector<std::byte>& out;

  void raw(const void* from, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(from);
    out.insert(out.end(), p, p + bytes);
  }
  template <Number T>
  void operator()(const char*, const T& value) {
    raw(&value, sizeof(T));
  }
  void operator()(const char*, const bool& value) {
    const uint8_t byte = value ? 1 : 0;
    raw(&byte, 1);
  }
  void operator()(const char*, const StepKind& value) { raw(&value, sizeof(value)); }
  void operator()(const char*, const Digest& value) { raw(value.data(), value.size()); }
  void operator()(const char*, const std::string& value) {
    (*this)("", static_cast<uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  template <Number T>
  void operator()(const char*, const std::vector<T>& value) {
    (*this)("", static_cast<uint32_t>(value.size()));
    raw(value.data(), value.size() * sizeof(T));
  }
};

// -- bytes in --

// Stops at the first thing that is wrong; the fields after it keep their defaults.
struct Reader {
  ByteSpan left;
  std::string wrong = {};  // empty: all is well

  bool take(const char* field, void* to, size_t bytes) {
    if (!wrong.empty()) return false;
    if (bytes > left.size()) {
      wrong = fmt::format("'{}' needs {} bytes, {} are left", field, bytes, left.size());
      return false;
    }
    if (bytes > 0) std::memcpy(to, left.data(), bytes);
    left = left.subspan(bytes);
    return true;
  }
  // A count of elements, already known to fit into what is left.
  bool count(const char* field, size_t element, size_t* n) {
    uint32_t claimed = 0;
    if (!take(field, &claimed, sizeof(claimed))) return false;
    if (claimed > left.size() / element) {
      wrong = fmt::format("'{}' claims {} elements, {} bytes are left", field, claimed, left.size());
      return false;
    }
    *n = claimed;
    return true;
  }
  template <Number T>
  void operator()(const char* field, T& value) {
    take(field, &value, sizeof(T));
  }
  void operator()(const char* field, bool& value) {
    uint8_t byte = 0;
    if (!take(field, &byte, 1)) return;
    if (byte > 1) wrong = fmt::format("'{}' is {}, neither 0 nor 1", field, byte);
    value = byte == 1;
  }
  void operator()(const char* field, StepKind& value) {
    uint8_t byte = 0;
    if (!take(field, &byte, 1)) return;
    switch (static_cast<StepKind>(byte)) {
      case StepKind::kTrain:
      case StepKind::kEval:
        value = static_cast<StepKind>(byte);
        return;
    }
    wrong = fmt::format("'{}' is {}, which is no kind of step", field, byte);
  }
  void operator()(const char* field, Digest& value) { take(field, value.data(), value.size()); }
  void operator()(const char* field, std::string& value) {
    size_t n = 0;
    if (!count(field, 1, &n)) return;
    value.resize(n);
    take(field, value.data(), n);
  }
  template <Number T>
  void operator()(const char* field, std::vector<T>& value) {
    size_t n = 0;
    if (!count(field, sizeof(T), &n)) return;
    value.resize(n);
    take(field, value.data(), n * sizeof(T));
  }
};

// -- text --

std::string quoted(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + (text.size() > kLongest ? "…\"" : "\"");
}

struct Printer {
  std::string& out;
  bool first = true;

  void text(const char* field, std::string_view value) {
    if (!first) out += ", ";
    first = false;
    out += field;
    out += '=';
    out += value;
  }
  template <Number T>
  void operator()(const char* field, const T& value) {
    text(field, fmt::format("{}", value));
  }
  void operator()(const char* field, const bool& value) { text(field, value ? "true" : "false"); }
  void operator()(const char* field, const StepKind& value) {
    text(field, value == StepKind::kTrain ? "train" : value == StepKind::kEval ? "eval" : "?");
  }
  void operator()(const char* field, const Digest& value) { text(field, to_hex(value).substr(0, 12)); }
  void operator()(const char* field, const std::string& value) { text(field, quoted(value)); }
  template <Number T>
  void operator()(const char* field, const std::vector<T>& value) {
    constexpr size_t kShown = 4;
    std::string list;
    for (size_t i = 0; i < std::min(value.size(), kShown); ++i) {
      list += fmt::format("{}{}", i == 0 ? "" : ", ", value[i]);
    }
    if (value.size() > kShown) list += fmt::format(", … {} in all", value.size());
    text(field, "[" + list + "]");
  }
};

// Calls f.operator()<M>() for the message M with this id; false where there is none.
template <typename F, size_t... I>
bool with_type(MessageType type, F&& f, std::index_sequence<I...>) {
  return ((std::variant_alternative_t<I, Message>::kType == type
               ? (f.template operator()<std::variant_alternative_t<I, Message>>(), true)
               : false) ||
          ...);
}

using Alternatives = std::make_index_sequence<std::variant_size_v<Message>>;

template <size_t... I>
std::vector<MessageType> all_types(std::index_sequence<I...>) {
  std::vector<MessageType> types{std::variant_alternative_t<I, Message>::kType...};
  std::sort(types.begin(), types.end());
  return types;
}

}  // namespace

const std::vector<MessageType>& message_types() {
  static const std::vector<MessageType> types = all_types(Alternatives{});
  return types;
}

MessageType type_of(const Message& message) {
  return std::visit([](const auto& m) { return std::decay_t<decltype(m)>::kType; }, message);
}

std::string name_of(MessageType type) {
  const char* name = name_of_known(type);
  return name != nullptr ? name : fmt::format("message {}", static_cast<unsigned>(type));
}

bool takes_payload(MessageType type) {
  return type == MessageType::kNodeChunk || type == MessageType::kParameterChunk || type == MessageType::kShardPart ||
         type == MessageType::kTensorChunk || type == MessageType::kPutChunk || type == MessageType::kStageValue ||
         type == MessageType::kRows || type == MessageType::kRowPush;
}

Result<Message> make_default(MessageType type) {
  std::optional<Message> message;
  if (!with_type(
          type, [&]<typename M>() { message.emplace(M{}); }, Alternatives{})) {
    return fail(ExitCode::kPeerLost, fmt::format("{} is not known here", name_of(type)));
  }
  return std::move(*message);
}

void encode(const Message& message, std::vector<std::byte>& out) {
  std::visit([&](const auto& m) { std::decay_t<decltype(m)>::fields(m, Writer{out}); }, message);
}

std::vector<std::byte> encode(const Message& message) {
  std::vector<std::byte> out;
  encode(message, out);
  return out;
}

Result<Message> decode(MessageType type, ByteSpan bytes) {
  Result<Message> message = make_default(type);
  if (!message) return message;
  Reader reader{bytes};
  std::visit([&](auto& m) { std::decay_t<decltype(m)>::fields(m, reader); }, *message);
  if (reader.wrong.empty() && !reader.left.empty()) {
    reader.wrong = fmt::format("{} bytes are left over", reader.left.size());
  }
  if (!reader.wrong.empty()) {
    return fail(ExitCode::kPeerLost, fmt::format("malformed {}: {}", name_of(type), reader.wrong));
  }
  return message;
}

std::string print(const Message& message) {
  std::string out = name_of(type_of(message)) + "{";
  std::visit([&](const auto& m) { std::decay_t<decltype(m)>::fields(m, Printer{out}); }, message);
  return out + "}";
}

}  // namespace dtrain::wire
