// The table of commands.
#pragma once

#include "command.h"

namespace dtrain::cmd {

extern const Command kRun, kLaunch, kCheck, kEval, kPredict, kInspect, kParams, kTop, kBenchmark, kSimulate,
    kCompletion;

inline const Command* const kCommands[] = {&kRun,    &kLaunch, &kCheck,     &kEval,     &kPredict,   &kInspect,
                                           &kParams, &kTop,    &kBenchmark, &kSimulate, &kCompletion};

}  // namespace dtrain::cmd
