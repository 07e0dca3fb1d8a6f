#include "doctor/check.h"

namespace dtrain::doctor {

Findings look_at_all(const Surroundings& here) {
  Findings findings;
  for (const Check* check : kChecks) {
    findings.begin(check->name);
    check->look(here, findings);
  }
  return findings;
}

}  // namespace dtrain::doctor
