// metrics.jsonl: what a run measured, one JSON object a line, written by the coordinator alone. A step line has "step",
// "epoch", "loss", "lr", "samples_per_s" (and "accuracy", "top5_accuracy" where the loss counts them; "lag_mean",
// "lag_p99", "dropped" where gradients may be stale); other lines have "event".
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dtrain::observe {

// Of all gradients so far: how many versions their parameters were behind, and how many came too late to count.
struct StaleRow {
  double mean = 0;
  uint64_t p99 = 0, dropped = 0;
};

struct StepRow {
  int64_t step = 0;                                         // steps done, this one included
  double epoch = 0;                                         // passes over the training data so far
  double loss = 0;                                          // mean over the batch
  std::vector<std::pair<std::string, double>> shares = {};  // of right answers, by name
  double rate = 0;                                          // learning rate of this step
  double samples_per_s = 0;
  std::optional<StaleRow> stale = {};
};

// One thread. Every line is flushed when it is written.
class MetricsFile {
 public:
  // Opens `path` to append. Where `resume_step` is given, lines of later steps are cut off first (through a temporary
  // file and a rename, so that nothing is lost if it is interrupted).
  static Result<MetricsFile> open(const std::string& path, std::optional<int64_t> resume_step);

  Status step(const StepRow& row);
  using Fields = std::vector<std::pair<std::string, std::string>>;  // name, JSON text of the value
  Status event(const std::string& name, const Fields& fields);

 private:
  MetricsFile(std::string path, std::ofstream out) : path_(std::move(path)), out_(std::move(out)) {}
  Status line(const std::string& text);

  std::string path_;
  std::ofstream out_;
};

std::string json_number(double value);             // shortest text that reads back the same; null where not finite
std::string json_string(const std::string& text);  // quoted and escaped

}  // namespace dtrain::observe
