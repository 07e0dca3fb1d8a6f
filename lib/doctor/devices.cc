// Accelerators that are there, and whether dtrain makes use of them.
#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/ascii.h"
#include "doctor/check.h"

namespace dtrain::doctor {
namespace {

// /dev/nvidia0, nvidia1, …: one each; the others (nvidiactl, nvidia-uvm) are the driver's.
int nvidia_devices(const Surroundings& here) {
  int count = 0;
  if (DIR* const folder = ::opendir((here.root + "/dev").c_str())) {
    while (const dirent* entry = ::readdir(folder)) {
      const std::string name = entry->d_name;
      count += name.starts_with("nvidia") && name.size() > 6 && std::all_of(name.begin() + 6, name.end(), is_digit);
    }
    ::closedir(folder);
  }
  return count;
}

void look(const Surroundings& here, Findings& findings) {
  const int devices = nvidia_devices(here);
  const std::string driver = here.line("/proc/driver/nvidia/version");
  if (devices == 0 && driver.empty()) return findings.ok("no NVIDIA GPU; this version computes on the processor");
  findings.note(
      fmt::format("{} NVIDIA GPU{} ({}); this version computes on the processor and does not use them: there "
                  "is no plugin for CUDA",
                  devices, devices == 1 ? "" : "s", driver.empty() ? "no driver loaded" : driver));
}

}  // namespace

const Check kDevices{"devices", look};

}  // namespace dtrain::doctor
