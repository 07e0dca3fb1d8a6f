// The activation functions and their derivatives in fp64, for the ops that are or that fuse an activation.
#pragma once

#include "ops/activation.h"

namespace dtrain::ops::reference {

double activate(const Activation& activation, double x);
// f'(x) from what activation.backward keeps: y where backward_uses_output(kind), else x.
double derivative(const Activation& activation, double saved);

}  // namespace dtrain::ops::reference
