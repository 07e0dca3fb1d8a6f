// What a part of `dtrain benchmark` reports: figures, what they are of, and the machine. The same list becomes text and
// one line of JSON, which can be read again to compare with. Values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "figures/figure.h"

namespace dtrain::figures {

// What the figures were measured on. Peaks are measured in the same run, by so many threads.
struct Machine {
  std::string cpu;
  int cores = 0;
  int threads = 0;
  double gflops = 0, gbytes = 0;  // of the best matrix product; of memory that is in no cache

  bool same(const Machine& other) const { return cpu == other.cpu && cores == other.cores; }
};

using Word = std::variant<int64_t, double, std::string>;
using Words = std::vector<std::pair<std::string, Word>>;

struct Report {
  std::string program;  // "dtrain 0.1.0"
  std::string part;     // "step"
  std::string title;    // a line for people
  std::string run;      // the run file; "" of a part that takes none
  Words settings;       // what makes the figures what they are: threads, workers, batch
  Words also;           // further keys of the JSON
  Machine machine;
  std::vector<Figure> figures;
  std::string verdict;  // a last line for people, and a key; "" for none

  const Figure* find(std::string_view name) const;
};

std::string to_text(const Report& report);
// {"program", "part", "run", "settings": {…}, "machine": {"cpu", "cores", "threads", "peak_gflops", "peak_gbytes"},
//  "figures": [{"name", "unit", "less_is_better", "median", "low", "high", "best", "rounds", "peak"}]}
// and the keys of `also`. No newline at the end; nothing in it that is no number.
std::string to_json(const Report& report);
// Errors (kUsage) say in which file what is missing.
Result<Report> read_report(const std::string& json, const std::string& file);

}  // namespace dtrain::figures
