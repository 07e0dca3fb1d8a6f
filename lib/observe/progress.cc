#include "observe/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace dtrain::observe {
namespace {

int terminal_width(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 100;
}

}  // namespace

std::string format_duration(Nanoseconds duration) {
  const double seconds = static_cast<double>(std::max<Nanoseconds>(duration, 0)) / kSecond;
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_loss(double loss) {
  return std::abs(loss) < 1e6 ? fmt::format("{:.4f}", loss) : fmt::format("{:.4g}", loss);
}

std::string progress_line(const ProgressState& s) {
  return fmt::format("epoch {:.2f}/{:.2f}  step {}/{}  loss {}  {:.0f} samples/s  {} left", s.epoch, s.epochs, s.step,
                     s.steps, format_loss(s.loss), s.samples_per_s, format_duration(s.left));
}

std::string progress_bar(const ProgressState& s, int width, bool colour) {
  const std::string text = progress_line(s);
  const int room = std::min(30, width - static_cast<int>(text.size()) - 4);
  if (room < 5) return text.substr(0, static_cast<size_t>(std::max(width - 1, 0)));
  const double part = s.steps > 0 ? static_cast<double>(s.step) / static_cast<double>(s.steps) : 0.0;
  const int full = std::clamp(static_cast<int>(part * room), 0, room);
  std::string done, rest;
  for (int i = 0; i < full; ++i) done += "━";
  for (int i = full; i < room; ++i) rest += "─";
  if (colour) return fmt::format("\x1b[32m{}\x1b[90m{}\x1b[0m  {}", done, rest, text);
  return done + rest + "  " + text;
}

Progress::Progress(std::FILE* stream, ProgressMode mode, bool colour, std::string prefix)
    : stream_(stream), mode_(mode), colour_(colour), prefix_(std::move(prefix)) {}

void Progress::update(const ProgressState& state, Instant now, bool log_row) {
  std::lock_guard lock(mutex_);
  if (mode_ == ProgressMode::kLines && log_row) {
    const std::string line = prefix_ + progress_line(state) + "\n";
    std::fwrite(line.data(), 1, line.size(), stream_);
    std::fflush(stream_);
  }
  if (mode_ != ProgressMode::kBar || (last_draw_ && now - *last_draw_ < kSecond / 10 && state.step < state.steps))
    return;
  last_draw_ = now;
  const int width = terminal_width(stream_) - static_cast<int>(prefix_.size());
  const std::string line = "\r\x1b[2K" + prefix_ + progress_bar(state, width, colour_);
  std::fwrite(line.data(), 1, line.size(), stream_);
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::leave_line() {
  std::lock_guard lock(mutex_);
  if (!drawn_) return;
  std::fputs("\r\x1b[2K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace dtrain::observe
