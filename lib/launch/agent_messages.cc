#include "launch/agent_messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dtrain::launch {
namespace {

using nlohmann::json;

template <typename T>
concept Record = requires(T& t) {
  T::fields(t, [](const char*, auto&) {});
};

template <typename T>
json to_json(const T& value) {
  if constexpr (Record<T>) {
    json out = json::object();
    T::fields(value, [&out](const char* name, const auto& field) { out[name] = to_json(field); });
    return out;
  } else if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
    json out = json::array();
    for (const auto& item : value) out.push_back(to_json(item));
    return out;
  } else {
    return value;
  }
}

// False where the field is missing or of another kind.
template <typename T>
bool from_json(const json& from, T& value) {
  if constexpr (Record<T>) {
    bool good = from.is_object();
    T::fields(value, [&](const char* name, auto& field) {
      const auto at = good ? from.find(name) : from.end();
      const bool may_lack = requires { T::kLenient; }
      &&good&& at == from.end() && std::string_view(name) != "version";
      good = may_lack || (good && at != from.end() && from_json(*at, field));
    });
    return good;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (from.is_string()) value = from.get<std::string>();
    return from.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (from.is_boolean()) value = from.get<bool>();
    return from.is_boolean();
  } else if constexpr (std::is_integral_v<T>) {
    if (!from.is_number_unsigned() || from.get<uint64_t>() > std::numeric_limits<T>::max()) return false;
    value = from.get<T>();
    return true;
  } else {
    if (!from.is_array()) return false;
    value.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      if (!from_json(from[i], value[i])) return false;
    return true;
  }
}

// The alternative of this type's name, read.
template <size_t I = 0>
std::optional<AgentMessage> read(const std::string& type, const json& from) {
  if constexpr (I < std::variant_size_v<AgentMessage>) {
    using T = std::variant_alternative_t<I, AgentMessage>;
    if (type != T::kType) return read<I + 1>(type, from);
    T message;
    if (from_json(from, message)) return message;
  }
  return std::nullopt;
}

}  // namespace

std::string to_digits(const std::string& bytes) {
  std::string out;
  for (const unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

std::string from_digits(const std::string& digits) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const size_t high = kDigits.find(digits[i]), low = kDigits.find(digits[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return "";
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string encode(const AgentMessage& message) {
  const json out = std::visit(
      [](const auto& m) {
        json object = to_json(m);
        object["type"] = std::decay_t<decltype(m)>::kType;
        return object;
      },
      message);
  return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<AgentMessage> decode(const std::string& line) {
  const json from = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (from.is_object())
    if (const auto type = from.find("type"); type != from.end() && type->is_string())
      if (auto message = read(type->get<std::string>(), from)) return std::move(*message);
  return fail(ExitCode::kPeerLost, fmt::format("no message: '{}'", line.substr(0, 200)));
}

}  // namespace dtrain::launch
