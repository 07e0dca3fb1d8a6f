// One thing to look at, and the table of all. To add one: a file that defines a Check, and its name in the two lines
// below; they are made in this order.
#pragma once

#include "doctor/finding.h"
#include "doctor/surroundings.h"

namespace dtrain::doctor {

struct Check {
  const char* name;
  void (*look)(const Surroundings& here, Findings& findings);
};

extern const Check kProcessor, kCores, kMemory, kSharedMemory, kLimits, kLibraries, kDevices, kClock, kHostName,
    kPrograms, kVariables, kRunFile, kCluster, kPorts;

inline const Check* const kChecks[] = {&kProcessor, &kCores,   &kMemory,  &kSharedMemory, &kLimits,
                                       &kLibraries, &kDevices, &kClock,   &kHostName,     &kPrograms,
                                       &kVariables, &kRunFile, &kCluster, &kPorts};

// Makes all of them.
Findings look_at_all(const Surroundings& here);

}  // namespace dtrain::doctor
