#include "doctor/finding.h"

#include <algorithm>

namespace dtrain::doctor {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kSlow:
      return "slow";
    case Verdict::kFails:
      break;
  }
  return "fails";
}

bool Findings::can_start() const {
  return std::none_of(all_.begin(), all_.end(), [](const Finding& f) { return f.verdict == Verdict::kFails; });
}

}  // namespace dtrain::doctor
