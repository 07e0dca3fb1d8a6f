// What tells the time: read for every op that is profiled and every message that is timed.
#include <fmt/format.h>
#include <sys/timex.h>

#include <algorithm>

#include "base/clock.h"
#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

// The least of some readings, each from one call to the next.
Nanoseconds reading() {
  SteadyClock clock;
  Nanoseconds best = kSecond;
  for (int i = 0; i < 200; ++i) {
    const Instant before = clock.now();
    best = std::min(best, clock.now() - before);
  }
  return best;
}

void look(const Surroundings& here, Findings& findings) {
  const std::string source = here.line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const Nanoseconds takes = reading();
  const std::string says =
      fmt::format("{}, read in {} ns", source.empty() ? "the system's clock" : "clock " + source, takes);
  if (takes > 500)
    findings.slow(says, "a clock that is read by a system call: 'tsc' or 'kvm-clock' as clocksource is faster");
  else
    findings.ok(says);
  timex time{};
  if (adjtimex(&time) == TIME_ERROR || (time.status & STA_UNSYNC) != 0)
    findings.note("the time of day is not kept by NTP: lines in the logs of several hosts may be out of order",
                  "systemd-timesyncd or chrony; training itself does not look at the time of day");
}

}  // namespace

const Check kClock{"clock", look};

}  // namespace dtrain::doctor
