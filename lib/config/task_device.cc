#include "config/task_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/ascii.h"

namespace dtrain::config {
namespace {

constexpr int64_t kMostTasks = 100'000;

bool is_of_name(char c) { return is_alnum(c) || c == '_' || c == '-'; }

std::optional<int64_t> task_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || !is_digit(text.front()) || number > kMostTasks)
    return std::nullopt;
  return number;
}

// The first word but "job" is the job, the last number the task.
std::string what_was_meant(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    if (!is_of_name(c)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    words.back() += c;
  }
  std::erase(words, "job");
  if (words.empty() || task_number(words.front())) return "";
  for (size_t i = words.size(); --i > 0;)
    if (const std::optional<int64_t> number = task_number(words[i]))
      return fmt::format(" (did you mean '/job:{}/task:{}'?)", words.front(), *number);
  return "";
}

void erase_devices(Value* layers) {
  if (!layers || !layers->is_array()) return;
  for (Value& layer : layers->as_array())
    if (layer.is_table()) layer.erase("device");
}

}  // namespace

std::optional<TaskDevice> read_task_device(std::string_view text, const Position& position, std::string_view what,
                                           Diagnostics& diagnostics) {
  constexpr std::string_view kJob = "/job:", kTask = "/task:";
  const size_t slash = text.starts_with(kJob) ? text.find('/', kJob.size()) : std::string_view::npos;
  if (slash != std::string_view::npos && text.substr(slash).starts_with(kTask)) {
    const std::string_view job = text.substr(kJob.size(), slash - kJob.size());
    const std::string_view number = text.substr(slash + kTask.size());
    const std::optional<int64_t> task = number.empty() ? std::nullopt : task_number(number);
    if (task && !job.empty() && std::all_of(job.begin(), job.end(), is_of_name))
      return TaskDevice{std::string(job), *task, position};
  }
  diagnostics.error(position, fmt::format("{}: '{}' names no task{}; 'device' is a worker of the cluster, such as "
                                          "\"/job:worker/task:1\"",
                                          what, text, what_was_meant(text)));
  return std::nullopt;
}

Value without_devices(Value root) {
  Value* network = root.find("network");
  if (!network) return root;
  erase_devices(network->find("layers"));
  Value* blocks = network->find("block");
  if (blocks && blocks->is_table())
    for (Entry& block : blocks->as_table()) erase_devices(block.value.find("layers"));
  return root;
}

}  // namespace dtrain::config
