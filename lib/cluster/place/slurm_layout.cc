#include "cluster/place/slurm_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace dtrain::cluster {
namespace {

constexpr size_t kMaxTasks = 65'536, kMaxPorts = 65'536;

std::optional<int> whole(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

std::vector<std::string_view> items(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t start = 0;;) {
    const size_t end = text.find(',', start);
    out.push_back(text.substr(start, end - start));
    if (end == std::string_view::npos) return out;
    start = end + 1;
  }
}

tl::unexpected<Error> bad(std::string_view item, const std::string& want) {
  return fail(ExitCode::kUsage, fmt::format("'{}' is not {}", item, want));
}

// Each node in turn gets `chunk` tasks, as long as it has room.
std::vector<TaskSpot> deal(const std::vector<int>& room, int chunk) {
  const size_t tasks = static_cast<size_t>(std::accumulate(room.begin(), room.end(), int64_t{0}));
  std::vector<int> used(room.size(), 0);
  std::vector<TaskSpot> spots;
  while (spots.size() < tasks)
    for (size_t node = 0; node < room.size(); ++node)
      for (int n = 0; n < chunk && used[node] < room[node]; ++n)
        spots.push_back({static_cast<int>(node), used[node]++});
  return spots;
}

}  // namespace

Result<std::vector<int>> parse_tasks_per_node(std::string_view text) {
  std::vector<int> out;
  for (const std::string_view item : items(text)) {
    const size_t open = item.find("(x");
    const bool repeated = open != std::string_view::npos && item.ends_with(')');
    const auto tasks = whole(item.substr(0, repeated ? open : item.size()));
    const auto nodes = repeated ? whole(item.substr(open + 2, item.size() - open - 3)) : std::optional(1);
    if (!tasks || !nodes || *nodes < 1) return bad(item, "a number of tasks, as 2(x3),1");
    if (static_cast<size_t>(*nodes) > kMaxTasks - out.size() || static_cast<size_t>(*tasks) > kMaxTasks)
      return bad(item, fmt::format("of a step that dtrain can have: more than {} tasks", kMaxTasks));
    out.insert(out.end(), static_cast<size_t>(*nodes), *tasks);
  }
  return out;
}

Result<std::vector<int>> parse_reserved_ports(std::string_view text) {
  std::vector<int> out;
  for (const std::string_view item : items(text)) {
    const size_t dash = item.find('-');
    const auto first = whole(item.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole(item.substr(dash + 1));
    if (!first || !last || *first < 1 || *last > 65'535 || *last < *first) return bad(item, "a range of ports");
    for (int port = *first; port <= *last && out.size() < kMaxPorts; ++port) out.push_back(port);
  }
  return out;
}

std::vector<TaskSpot> layout(const std::vector<int>& tasks_per_node, std::string_view distribution, int plane) {
  const std::string_view nodes = distribution.substr(0, distribution.find_first_of(":,="));
  if (nodes.empty() || nodes == "block" || nodes == "*")
    return deal(tasks_per_node, std::max(1, *std::max_element(tasks_per_node.begin(), tasks_per_node.end())));
  if (nodes == "cyclic") return deal(tasks_per_node, 1);
  if (nodes == "plane" && plane > 0) return deal(tasks_per_node, plane);
  return {};
}

}  // namespace dtrain::cluster
