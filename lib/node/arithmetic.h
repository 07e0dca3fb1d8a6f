// What a run file says about the arithmetic of a host: instruction set and precision. Process-wide: before anything is
// planned.
#pragma once

#include "base/result.h"
#include "config/run_spec.h"
#include "tensor/dtype.h"

namespace dtrain::node {

// Pins train.isa, allows Winograd's convolutions or not, and makes sure that this processor computes in
// train.precision.
Status set_up_arithmetic(const config::TrainSpec& train);

// What the factors of products are rounded to.
DType compute_type(const config::TrainSpec& train);

}  // namespace dtrain::node
