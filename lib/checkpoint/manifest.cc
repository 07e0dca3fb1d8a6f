#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int kMaxDepth = 4;

using KindName = std::pair<ParameterKind, std::string_view>;
constexpr KindName kKindNames[] = {{ParameterKind::kParameter, "parameter"},
                                   {ParameterKind::kStatistic, "statistic"},
                                   {ParameterKind::kFrozen, "frozen"},
                                   {ParameterKind::kSparse, "sparse"}};

// The last lines of a manifest: the digest of all the text before them.
std::string seal(std::string_view text) { return fmt::format(",\n \"sha256\": \"{}\"\n}}\n", to_hex(sha256(text))); }

// Reads members of one JSON object; remembers the first thing that is wrong.
class ObjectReader {
 public:
  ObjectReader(const ordered_json& object, std::string where, std::string& error)
      : object_(object), where_(std::move(where)), error_(error) {
    if (!object.is_object()) complain(fmt::format("{} is not an object", where_));
  }

  std::string text(const char* key) {
    const ordered_json* value = member(key);
    if (value && !value->is_string()) return complain(fmt::format("{}: '{}' is not a string", where_, key)), "";
    return value ? value->get<std::string>() : "";
  }

  int64_t number(const char* key, int64_t least) {
    const ordered_json* value = member(key);
    if (!value) return least;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits || value->get<int64_t>() < least)
      return complain(fmt::format("{}: '{}' is not a whole number of at least {}", where_, key, least)), least;
    return value->get<int64_t>();
  }

  uint64_t unsigned_number(const char* key) {
    const ordered_json* value = member(key);
    if (value && !value->is_number_unsigned())
      return complain(fmt::format("{}: '{}' is not a whole number of at least 0", where_, key)), 0;
    return value ? value->get<uint64_t>() : 0;
  }

  const ordered_json& list(const char* key) {
    static const ordered_json kEmpty = ordered_json::array();
    const ordered_json* value = member(key);
    if (value && !value->is_array()) return complain(fmt::format("{}: '{}' is not a list", where_, key)), kEmpty;
    return value ? *value : kEmpty;
  }

  // Strings by name; none where there is no such member.
  std::map<std::string, std::string> strings(const char* key) {
    std::map<std::string, std::string> all;
    if (!object_.is_object() || !object_.contains(key)) return all;
    const ordered_json& value = object_.at(key);
    if (!value.is_object()) return complain(fmt::format("{}: '{}' is not an object", where_, key)), all;
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) return complain(fmt::format("{}: '{}' is not of strings", where_, key)), all;
      all[name] = text.get<std::string>();
    }
    return all;
  }

  void complain(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }
  const std::string& where() const { return where_; }

 private:
  const ordered_json* member(const char* key) {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end()) return complain(fmt::format("{} has no '{}'", where_, key)), nullptr;
    return &*found;
  }

  const ordered_json& object_;
  std::string where_;
  std::string& error_;
};

std::optional<Digest> digest_from_hex(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* from = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(from, from + 2, digest[i], 16);
    if (error != std::errc() || end != from + 2) return std::nullopt;
  }
  return digest;
}

ManifestParameter read_parameter(const ordered_json& item, std::string& error) {
  ObjectReader in(item, "a parameter", error);
  ManifestParameter p;
  p.name = in.text("name");
  const std::string dtype = in.text("dtype"), kind = in.text("kind");
  if (std::optional<DType> known = dtype_by_name(dtype))
    p.dtype = *known;
  else
    in.complain(fmt::format("parameter '{}' has the unknown type '{}'", p.name, dtype));
  if (const auto known = std::ranges::find(kKindNames, kind, &KindName::second); known != std::end(kKindNames))
    p.kind = known->first;
  else
    in.complain(fmt::format("parameter '{}' is of the unknown kind '{}'", p.name, kind));
  std::vector<int64_t> dims;
  for (const ordered_json& d : in.list("shape")) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      in.complain(fmt::format("parameter '{}' has a shape of other than whole numbers", p.name));
    else
      dims.push_back(d.get<int64_t>());
  }
  p.shape = Shape(std::move(dims));
  if (p.kind == ParameterKind::kSparse && (p.shape.rank() != 2 || p.dtype != DType::kF32))
    in.complain(fmt::format("parameter '{}' is a sparse table, but no matrix of F32", p.name));
  if (!bytes_of(p.dtype, p.shape))
    in.complain(fmt::format("parameter '{}' is too large: {}", p.name, to_string(p.shape)));
  return p;
}

ManifestFile read_file_entry(const ordered_json& item, std::string& error) {
  ObjectReader in(item, "a file", error);
  ManifestFile f;
  f.name = in.text("name");
  f.bytes = in.unsigned_number("bytes");
  if (!server_of_shard_file(f.name)) in.complain(fmt::format("'{}' is not the name of a shard file", f.name));
  if (std::optional<Digest> digest = digest_from_hex(in.text("sha256")))
    f.sha256 = *digest;
  else
    in.complain(fmt::format("file '{}' has no SHA-256 of 64 digits", f.name));
  return f;
}

constexpr auto kByName = [](const auto& a, const auto& b) { return a.name < b.name; };
constexpr auto kSameName = [](const auto& a, const auto& b) { return a.name == b.name; };

void check_names(const Manifest& m, std::string& error) {
  if (!error.empty()) return;
  if (auto p = std::adjacent_find(m.parameters.begin(), m.parameters.end(), kSameName); p != m.parameters.end())
    error = fmt::format("parameter '{}' is there twice", p->name);
  else if (auto f = std::adjacent_find(m.files.begin(), m.files.end(), kSameName); f != m.files.end())
    error = fmt::format("file '{}' is there twice", f->name);
  else if (auto s = std::adjacent_find(m.slots.begin(), m.slots.end()); s != m.slots.end())
    error = fmt::format("slot '{}' is there twice", *s);
  else if (!m.slots.empty() && m.slots.front().empty())
    error = "a slot has no name";
}

void sort_all(Manifest& m) {
  std::sort(m.parameters.begin(), m.parameters.end(), kByName);
  std::sort(m.files.begin(), m.files.end(), kByName);
  std::sort(m.slots.begin(), m.slots.end());
}

}  // namespace

const ManifestParameter* Manifest::find(std::string_view parameter) const {
  const auto at = std::lower_bound(parameters.begin(), parameters.end(), parameter,
                                   [](const ManifestParameter& p, std::string_view n) { return p.name < n; });
  return at != parameters.end() && at->name == parameter ? &*at : nullptr;
}

std::string to_json(Manifest m) {
  sort_all(m);
  ordered_json out;
  out["format"] = Manifest::kFormat;
  out["program"] = m.program;
  out["step"] = m.step;
  out["micro_batches"] = m.micro_batches;
  out["threads"] = m.threads;
  out["seed"] = m.seed;
  out["run_name"] = m.run_name;
  out["run_digest"] = m.run_digest;
  out["config"] = m.config;
  if (!m.metadata.empty()) out["metadata"] = m.metadata;
  out["parameters"] = ordered_json::array();
  for (const ManifestParameter& p : m.parameters)
    out["parameters"].push_back({{"name", p.name},
                                 {"shape", p.shape.dims()},
                                 {"dtype", name_of(p.dtype)},
                                 {"kind", std::ranges::find(kKindNames, p.kind, &KindName::first)->second}});
  out["slots"] = m.slots;
  out["files"] = ordered_json::array();
  for (const ManifestFile& f : m.files)
    out["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"sha256", to_hex(f.sha256)}});
  // Names come from TOML, which is UTF-8; anything else would be replaced rather than end the run.
  std::string text = out.dump(1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2);  // without the closing brace on its line
  return text + seal(text);
}

Result<Manifest> manifest_from_json(std::string_view json, const std::string& path) {
  std::string error;
  Manifest m;
  const size_t sealed = json.size() - std::min(json.size(), seal("").size());
  if (json.substr(sealed) != seal(json.substr(0, sealed)))
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' is cut or damaged: it does not end with its own SHA-256", path));
  try {
    bool deep = false;
    const auto shallow = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
      deep |= depth > kMaxDepth;
      return !deep;
    };
    const ordered_json document = ordered_json::parse(json, shallow, false);
    if (document.is_discarded() || deep)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}' is not a manifest: it is not JSON of the expected depth", path));
    ObjectReader in(document, "the manifest", error);
    if (const int64_t format = in.number("format", 1); error.empty() && format != Manifest::kFormat)
      in.complain(fmt::format("it has format {}, this dtrain knows {}", format, Manifest::kFormat));
    m.program = in.text("program");
    m.step = in.number("step", 0);
    m.micro_batches = in.number("micro_batches", 1);
    m.threads = in.number("threads", 1);
    m.seed = in.unsigned_number("seed");
    m.run_name = in.text("run_name");
    m.run_digest = in.text("run_digest");
    m.config = in.text("config");
    m.metadata = in.strings("metadata");
    for (const ordered_json& item : in.list("parameters")) m.parameters.push_back(read_parameter(item, error));
    for (const ordered_json& item : in.list("files")) m.files.push_back(read_file_entry(item, error));
    for (const ordered_json& item : in.list("slots")) {
      if (item.is_string())
        m.slots.push_back(item.get<std::string>());
      else
        in.complain("a slot's name is not a string");
    }
  } catch (const nlohmann::json::exception& e) {
    error = e.what();
  }
  sort_all(m);
  check_names(m, error);
  if (!error.empty()) return fail(ExitCode::kCheckpoint, fmt::format("'{}' is not a valid manifest: {}", path, error));
  return m;
}

std::string shard_file_name(int64_t server) { return fmt::format("server-{}.safetensors", server); }

std::optional<int64_t> server_of_shard_file(std::string_view name) {
  constexpr std::string_view kBefore = "server-", kAfter = ".safetensors";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  const char* from = name.data() + kBefore.size();
  int64_t server = 0;
  if (std::from_chars(from, name.data() + name.size(), server).ec != std::errc()) return std::nullopt;
  return server >= 0 && shard_file_name(server) == name ? std::optional(server) : std::nullopt;
}

}  // namespace dtrain::checkpoint
