#include "net/handshake.h"

#include <fmt/format.h>

#include "base/exit_code.h"
#include "base/sha256.h"

namespace dtrain::net {
namespace {

// Enough digits to tell digests apart, few enough to read.
std::string shown(const Digest& digest) { return to_hex(digest).substr(0, 16); }
const std::string& shown(const std::string& text) { return text; }
std::string shown(uint16_t number) { return fmt::format("{}", number); }

template <typename T>
std::optional<wire::Refuse> compare(const char* field, const T& ours, const T& theirs) {
  if (ours == theirs) return std::nullopt;
  return wire::Refuse{static_cast<uint8_t>(ExitCode::kUsage), field, shown(ours), shown(theirs)};
}

template <typename T>
std::optional<wire::Refuse> compare_if_both(const char* field, const T& ours, const T& theirs) {
  if (ours == T{} || theirs == T{}) return std::nullopt;
  return compare(field, ours, theirs);
}

}  // namespace

std::optional<wire::Refuse> first_difference(const wire::Hello& ours, const wire::Hello& theirs) {
  if (auto r = compare("protocol", ours.protocol, theirs.protocol)) return r;
  if (auto r = compare("program", ours.program, theirs.program)) return r;
  if (auto r = compare("cluster_digest", ours.cluster_digest, theirs.cluster_digest)) return r;
  if (auto r = compare("run_digest", ours.run_digest, theirs.run_digest)) return r;
  if (auto r = compare_if_both("data_digest", ours.data_digest, theirs.data_digest)) return r;
  if (auto r = compare_if_both("init_digest", ours.init_digest, theirs.init_digest)) return r;
  return compare_if_both("fingerprint", ours.fingerprint, theirs.fingerprint);
}

namespace {

// What a digest stands for, and how to find the difference.
std::string_view hint(std::string_view field) {
  if (field == "run_digest") return "; run files or --set differ: compare dtrain check RUN --dump_config on both";
  if (field == "cluster_digest") return "; the cluster specs differ";
  if (field == "data_digest") return "; the data files or the keys of [data] differ";
  if (field == "init_digest") return "; the models of --init differ";
  return "";
}

}  // namespace

std::string printable(std::string text) {
  constexpr size_t kLongest = 100;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string explain(const wire::Refuse& refuse, const Endpoint& by) {
  if (refuse.field == "secret" && refuse.ours == "none")
    return fmt::format("this task has a secret, {} ({}) has none: give the same --secret_file to both", by.name,
                       to_string(by));
  if (refuse.field == "secret")
    return fmt::format("{} ({}) holds another secret than this task: give the same --secret_file to both", by.name,
                       to_string(by));
  if (refuse.field.empty())
    return fmt::format(
        "{} ({}) refused this task without a reason: it probably has a secret, and this task has none: "
        "give the same --secret_file to both",
        by.name, to_string(by));
  return fmt::format("{} ({}) refused this task: {} differs: {} there, {} here{}", by.name, to_string(by),
                     printable(refuse.field), printable(refuse.ours), printable(refuse.theirs), hint(refuse.field));
}

}  // namespace dtrain::net
