#include "launch/hostfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/nearest.h"
#include "cluster/host_range.h"

namespace dtrain::launch {
namespace {

constexpr int kMostSlots = 1024;
const std::array<std::string, 3> kKeys = {"slots", "role", "address"};

std::vector<std::string> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.emplace_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

std::optional<int> number(std::string_view text, int min, int max) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) return std::nullopt;
  return value;
}

// Reads one line's words; errors without the place.
class LineParser {
 public:
  Result<std::vector<HostEntry>> parse(const std::vector<std::string>& words) {
    DTRAIN_TRY(read_host(words.front()));
    for (size_t i = 1; i < words.size(); ++i) DTRAIN_TRY(read_key(words[i]));
    // "user@node[1-3]": the range is the host's.
    const size_t at = host_.find('@');
    const std::string user = at == std::string::npos ? "" : host_.substr(0, at + 1);
    DTRAIN_TRY_ASSIGN(const auto names, v6_ ? Result<std::vector<std::string>>(std::vector{host_.substr(user.size())})
                                            : cluster::expand_hosts(host_.substr(user.size())));
    if (names.size() > 1 && !entry_.address.empty()) return wrong("'address' is of one host, and these are several");
    std::vector<HostEntry> out;
    for (const std::string& name : names) {
      HostEntry entry = entry_;
      entry.host = user + name;
      out.push_back(std::move(entry));
    }
    return out;
  }

 private:
  static tl::unexpected<Error> wrong(std::string what) { return fail(ExitCode::kUsage, std::move(what)); }

  // host, host:port, [v6], [v6]:port, user@ before it.
  Status read_host(const std::string& word) {
    const size_t user_end = word.find('@');
    const size_t begin = user_end == std::string::npos ? 0 : user_end + 1;
    const size_t bracket = word.find(']', begin);
    v6_ = word[begin] == '[' && bracket != std::string::npos &&
          word.substr(begin, bracket - begin).find(':') != std::string::npos;
    const size_t colon = word.find(':', v6_ ? bracket : begin);
    host_ = word.substr(0, colon);
    if (v6_) host_ = word.substr(0, begin) + word.substr(begin + 1, bracket - begin - 1);
    if (host_.size() == begin) return wrong(fmt::format("'{}' names no host", word));
    if (begin == 1) return wrong(fmt::format("'{}' names no user before the '@'", word));
    if (std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      return wrong("the name of a host holds a character that controls terminals");
    if (host_[begin] == '-') return wrong(fmt::format("'{}' is no name of a host", word));
    if (colon == std::string::npos) return {};
    const auto port = number(std::string_view(word).substr(colon + 1), 1, 65535);
    if (!port)
      return wrong(
          fmt::format("'{}': behind the colon stands the port of ssh, from 1 to 65535; how many tasks is "
                      "said by slots=N",
                      word));
    entry_.ssh_port = *port;
    return {};
  }

  Status read_key(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      return wrong(
          fmt::format("unknown '{}'{}; a line is: host[:ssh_port] [slots=N] [role=ps|worker] "
                      "[address=ADDRESS], one host a line",
                      word, suggestion(key, kKeys)));
    const std::string value = word.substr(equals + 1);
    if (key == "slots") {
      const auto slots = number(value, 1, kMostSlots);
      if (!slots) return wrong(fmt::format("'{}': slots is a number from 1 to {}", word, kMostSlots));
      entry_.slots = *slots;
    } else if (key == "role") {
      if (value != "ps" && value != "worker") return wrong(fmt::format("'{}': role is ps or worker", word));
      entry_.role = value == "ps" ? cluster::Role::kPs : cluster::Role::kWorker;
    } else {
      if (value.empty()) return wrong("address= is empty");
      entry_.address = value;
    }
    return {};
  }

  HostEntry entry_;
  std::string host_;
  bool v6_ = false;
};

}  // namespace

Result<std::vector<HostEntry>> parse_hostfile(std::string_view text, const std::string& name) {
  std::vector<HostEntry> hosts;
  std::map<std::string, int> seen;  // host and port → line
  int line_number = 0;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // what some editors begin a file with
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    ++line_number;
    const std::vector<std::string> words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.empty()) continue;
    const auto at = [&](const std::string& what) {
      return fail(ExitCode::kUsage, fmt::format("{}:{}: error: {}", name, line_number, what));
    };
    auto entries = LineParser().parse(words);
    if (!entries) return at(entries.error().message);
    for (HostEntry& entry : *entries) {
      const auto [first, fresh] = seen.emplace(fmt::format("{}:{}", entry.host, entry.ssh_port), line_number);
      if (!fresh)
        return at(fmt::format("{} is in line {} already: say slots=N there to start N tasks on it", entry.host,
                              first->second));
      hosts.push_back(std::move(entry));
    }
  }
  if (hosts.empty())
    return fail(ExitCode::kUsage, fmt::format("{} names no host; a line is: host[:ssh_port] [slots=N]", name));
  return hosts;
}

Result<std::vector<PlacedHostTask>> place_tasks(const std::vector<HostEntry>& hosts, int workers, int ps) {
  std::vector<int> left;
  for (const HostEntry& host : hosts) left.push_back(host.slots);
  const auto takes = [&](size_t host, cluster::Role role) {
    return left[host] > 0 && hosts[host].role.value_or(role) == role;
  };
  const auto short_of = [&](const char* role, int wanted, int placed) {
    int slots = 0;
    for (const HostEntry& host : hosts) slots += host.slots;
    return fail(
        ExitCode::kUsage,
        fmt::format("there are too few slots: {} {} task{} {} wanted, and there is room for {} ({} slots on {} "
                    "hosts, one for each task, parameter servers too); give hosts more slots=N, or name more",
                    wanted, role, wanted == 1 ? "" : "s", wanted == 1 ? "is" : "are", placed, slots, hosts.size()));
  };
  std::vector<PlacedHostTask> out;
  // Round by round, so that servers do not share a host's link while others have none.
  for (bool any = true; static_cast<int>(out.size()) < ps;) {
    if (!any) return short_of("ps", ps, static_cast<int>(out.size()));
    any = false;
    for (size_t h = 0; h < hosts.size() && static_cast<int>(out.size()) < ps; ++h) {
      if (!takes(h, cluster::Role::kPs)) continue;
      out.push_back({{"ps", static_cast<int>(out.size())}, h});
      --left[h];
      any = true;
    }
  }
  int placed = 0;
  for (size_t h = 0; h < hosts.size(); ++h)
    for (; takes(h, cluster::Role::kWorker) && (workers < 0 || placed < workers); --left[h])
      out.push_back({{"worker", placed++}, h});
  if (placed < std::max(workers, 1)) return short_of("worker", std::max(workers, 1), placed);
  return out;
}

}  // namespace dtrain::launch
