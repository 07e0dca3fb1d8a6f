#include "figures/reader_verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace dtrain::figures {

std::string reader_verdict(double ratio, size_t threads, size_t cores) {
  if (ratio >= 1) return fmt::format("the reader gives {:.1f} times what the step takes", ratio);
  const auto wanted = static_cast<size_t>(std::ceil(static_cast<double>(threads) / ratio));
  std::string out = fmt::format("the reader holds the step back: {:.2g} times", ratio);
  if (wanted <= cores) return out + fmt::format("; set data.train.threads = {}", wanted);
  if (threads < cores) out += fmt::format("; set data.train.threads = {}", cores);
  return out +
         fmt::format("{} {} threads would keep up, and there are {} cores: smaller images or fewer transforms help",
                     threads < cores ? ", though" : ";", wanted, cores);
}

}  // namespace dtrain::figures
