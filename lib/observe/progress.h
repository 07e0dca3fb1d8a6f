// What a person sees of a run: on a terminal one line that is rewritten (epoch, step, loss, samples/s, time left),
// elsewhere a plain line now and then. Thread-safe: whoever logs a line wipes the bar.
#pragma once

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"

namespace dtrain::observe {

enum class ProgressMode { kBar, kLines, kNone };

struct ProgressState {
  int64_t step = 0, steps = 0;
  double epoch = 0, epochs = 0;
  double loss = 0;
  double samples_per_s = 0;
  Nanoseconds left = 0;
};

class Progress {
 public:
  // The stream is borrowed. `colour` only matters for the bar.
  Progress(std::FILE* stream, ProgressMode mode, bool colour, std::string prefix = "");
  ~Progress() { leave_line(); }

  // A bar is redrawn at most ten times a second; lines are written for the states of log rows only.
  void update(const ProgressState& state, Instant now, bool log_row);
  // Wipes the bar, so that other text can be written; the next update draws it again.
  void leave_line();

 private:
  std::FILE* stream_;
  ProgressMode mode_;
  bool colour_;
  std::string prefix_;
  std::mutex mutex_;
  bool drawn_ = false;
  std::optional<Instant> last_draw_;
};

std::string format_duration(Nanoseconds duration);
// "0.3263"; of more than a million, as training that diverges has it, "1.063e+11".
std::string format_loss(double loss);                   // "41.2 s", "3:05", "2:13:40"
std::string progress_line(const ProgressState& state);  // the plain form
std::string progress_bar(const ProgressState& state, int width, bool colour);

}  // namespace dtrain::observe
