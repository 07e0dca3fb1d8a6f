// The table of commands.
#pragma once

#include "command.h"

namespace dtrain::cmd {

extern const Command kRun, kLaunch, kCheck, kEval, kPredict, kInspect, kParams, kTop, kBenchmark, kSimulate,
    kDoctor;
// Not for people: what launch starts on other hosts, and what packages are built with.
extern const Command kAgent, kCompletion;

inline const Command* const kCommands[] = {
    &kRun,
    &kLaunch,
    &kCheck,
    &kEval,
    &kPredict,
    &kInspect,
    &kParams,
    &kTop,
    &kBenchmark,
    &kSimulate,
    &kDoctor,
    &kAgent,
    &kCompletion,
};

}  // namespace dtrain::cmd
