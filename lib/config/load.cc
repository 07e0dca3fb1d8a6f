#include "config/load.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "config/canonical.h"
#include "config/diagnostics.h"
#include "config/parse.h"

namespace dtrain::config {
namespace {

constexpr size_t kMaxIncludeDepth = 16;
constexpr int kMaxFiles = 256;
constexpr size_t kMaxSetDepth = 16;

tl::unexpected<Error> error_at(const Position& position, std::string message) {
  Diagnostics diagnostics;
  diagnostics.error(position, std::move(message));
  return tl::unexpected<Error>(diagnostics.status().error());
}

// Of two keys that exclude each other the one in the higher layer wins.
void drop_alternatives(Value& under, const Value& over) {
  Value* below = under.find("train");
  const Value* above = over.find("train");
  if (!below || !below->is_table() || !above) return;
  constexpr std::pair<std::string_view, std::string_view> kAlternatives[] = {{"steps", "epochs"}, {"epochs", "steps"}};
  for (auto [set, other] : kAlternatives) {
    if (above->find(set)) below->erase(other);
  }
}

Value merge(Value under, Value over) {
  Value::Table merged = std::move(under.as_table());
  Value result(std::move(merged), over.position());
  for (Entry& e : over.as_table()) {
    Value* old = result.find(e.key);
    Value next =
        old && old->is_table() && e.value.is_table() ? merge(std::move(*old), std::move(e.value)) : std::move(e.value);
    result.set(e.key, std::move(next), std::move(e.key_position));
  }
  return result;
}

class Loader {
 public:
  explicit Loader(const ReadFile& read) : read_(read) {}

  // `path` is on chain_ while its includes are read.
  Result<Value> text(std::string_view text, const std::string& path) {
    DTRAIN_TRY_ASSIGN(Value own, parse_toml(text, path));
    const Value* include = own.find("include");
    if (!include) return own;
    if (!include->is_array()) {
      return error_at(include->position(), fmt::format("'include' must be a list of file names, such as include = "
                                                       "[\"network.toml\"]; got {}",
                                                       describe(*include)));
    }
    chain_.push_back(path);
    Value under(Value::Table{}, own.position());
    for (const Value& item : include->as_array()) {
      DTRAIN_TRY_ASSIGN(Value included, file(item));
      drop_alternatives(under, included);
      under = merge(std::move(under), std::move(included));
    }
    chain_.pop_back();
    own.erase("include");
    drop_alternatives(under, own);
    return merge(std::move(under), std::move(own));
  }

 private:
  Result<Value> file(const Value& name) {
    if (!name.is_string() || name.as_string().empty()) {
      return error_at(name.position(), fmt::format("expected the name of a file to include, got {}", describe(name)));
    }
    const std::string path = resolve_path(name.as_string(), name.position());
    auto same = [&path](const std::string& other) {
      return std::filesystem::path(other).lexically_normal() == std::filesystem::path(path).lexically_normal();
    };
    if (auto first = std::find_if(chain_.begin(), chain_.end(), same); first != chain_.end()) {
      return error_at(name.position(), fmt::format("files include each other in a circle: {} -> {}",
                                                   fmt::join(first, chain_.end(), " -> "), path));
    }
    if (chain_.size() >= kMaxIncludeDepth) {
      return error_at(name.position(), fmt::format("more than {} files include each other", kMaxIncludeDepth));
    }
    if (++files_ > kMaxFiles) return error_at(name.position(), fmt::format("more than {} includes", kMaxFiles));
    Result<std::string> bytes = read_(path);
    if (!bytes) {
      return error_at(name.position(), fmt::format("cannot read '{}': {}", path, bytes.error().message));
    }
    return text(*bytes, path);
  }

  const ReadFile& read_;
  std::vector<std::string> chain_;
  int files_ = 0;
};

// "5", "[1, 2]", "true" or "\"x\"" as TOML; anything else that does not try to be TOML is a bare word.
Result<Value> override_value(std::string_view text, const std::string& source) {
  const Position at(source, 0, 0);
  auto element = [](const Result<Value>& parsed) -> Result<Value> {
    const Value* list = parsed && parsed->as_table().size() == 1 ? parsed->find("v") : nullptr;
    if (!list || list->as_array().size() != 1) return fail(ExitCode::kUsage, "");
    return list->as_array().front();
  };
  // Inside a list, a comment sign or a second value cannot be dropped in silence.
  Result<Value> value = element(parse_toml(fmt::format("v = [{}]", text), source));
  if (!value || text.back() == ',') {
    if (std::string_view("\"'[{").find(text.front()) != std::string_view::npos) {
      return error_at(at, fmt::format("'{}' is not a valid TOML value", text));
    }
    value = element(parse_toml(fmt::format("v = [{}]", quoted(text)), source));
    if (!value) return error_at(at, "the value is not valid UTF-8");
  }
  // Parsed positions would point into text that the user never saw.
  auto replace_position = [&at](auto&& self, const Value& v) -> Value {
    if (v.is_table()) {
      Value::Table entries;
      for (const Entry& e : v.as_table()) entries.push_back({e.key, self(self, e.value), at});
      return Value(std::move(entries), at);
    }
    if (v.is_array()) {
      Value::Array items;
      for (const Value& item : v.as_array()) items.push_back(self(self, item));
      return Value(std::move(items), at);
    }
    if (v.is_string()) return Value(v.as_string(), at);
    if (v.is_integer()) return Value(v.as_integer(), at);
    if (v.is_float()) return Value(v.as_float(), at);
    return Value(v.as_boolean(), at);
  };
  return replace_position(replace_position, *value);
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return c < 128 && (std::isalnum(c) || c == '_' || c == '-');
  });
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

Status apply_override(Value& root, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string path(trimmed(std::string_view(text).substr(0, equals)));
  const Position at(fmt::format("--set {}", path), 0, 0);
  std::vector<std::string> keys;
  for (size_t start = 0; start <= path.size();) {
    const size_t dot = std::min(path.find('.', start), path.size());
    keys.push_back(path.substr(start, dot - start));
    start = dot + 1;
  }
  if (!std::all_of(keys.begin(), keys.end(), is_bare_key) || keys.size() > kMaxSetDepth) {
    return error_at(at, "expected a key such as train.steps, then = and a value");
  }
  const std::string_view value = equals == std::string::npos ? "" : trimmed(std::string_view(text).substr(equals + 1));
  if (value.empty())
    return error_at(at, fmt::format("no value; write --set {0}=VALUE (\"\" is the empty string)", path));
  if (path == "include") return error_at(at, "'include' can only stand in a file");
  DTRAIN_TRY_ASSIGN(Value parsed, override_value(value, at.file()));

  // Built as a tree with one path, it merges like one more file.
  for (size_t i = keys.size(); i-- > 1;) parsed = Value(Value::Table{{keys[i], std::move(parsed), at}}, at);
  Value over(Value::Table{{keys[0], std::move(parsed), at}}, at);
  const Value* existing = &root;
  for (size_t i = 0; i + 1 < keys.size() && existing; ++i) {
    existing = existing->find(keys[i]);
    if (existing && !existing->is_table()) {
      const std::string prefix =
          fmt::format("{}", fmt::join(keys.begin(), keys.begin() + static_cast<long>(i) + 1, "."));
      return error_at(at, fmt::format("'{}' is {}, not a table: --set reaches into tables only; set '{}' as a whole or "
                                      "edit {}",
                                      prefix, describe(*existing), prefix, to_string(existing->position())));
    }
  }
  drop_alternatives(root, over);
  const Position root_position = root.position();
  root = merge(std::move(root), std::move(over));
  root = Value(std::move(root.as_table()), root_position);
  return {};
}

}  // namespace

Result<std::string> read_file_from_disk(const std::string& path) {
  constexpr int kPatience = 10'000;  // ms that a pipe may be silent
  auto cannot = [] { return fail(ExitCode::kUsage, std::strerror(errno)); };
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return cannot();
  const std::unique_ptr<const int, void (*)(const int*)> closer(&fd, [](const int* f) { close(*f); });
  std::string bytes;
  char block[1 << 16];
  // One byte beyond the limit is enough for the parser to refuse it.
  while (bytes.size() <= kMaxFileBytes) {
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, kPatience) == 0) return fail(ExitCode::kUsage, "a pipe into which nobody writes");
    const ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return cannot();
    if (n == 0) break;
    bytes.append(block, static_cast<size_t>(n));
  }
  return bytes;
}

Result<Value> load_file(const std::string& path, std::span<const std::string> overrides, const ReadFile& read) {
  Result<std::string> bytes = read(path);
  if (!bytes) return fail(ExitCode::kUsage, fmt::format("cannot read '{}': {}", path, bytes.error().message));
  return load_text(*bytes, path, overrides, read);
}

Result<Value> load_text(std::string_view text, const std::string& file, std::span<const std::string> overrides,
                        const ReadFile& read) {
  DTRAIN_TRY_ASSIGN(Value root, Loader(read).text(text, file));
  for (const std::string& o : overrides) DTRAIN_TRY(apply_override(root, o));
  return root;
}

std::string resolve_path(const std::string& path, const Position& position) {
  if (!position.in_file()) return path;
  return (std::filesystem::path(position.file()).parent_path() / path).string();
}

}  // namespace dtrain::config
