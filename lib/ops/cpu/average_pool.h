// Average pooling on plain layouts with PyTorch's divisor, for the requests where oneDNN's differs: with `ceil` and
// count_include_pad, oneDNN divides the last windows by the kernel's size, PyTorch by what lies inside the padded
// input.
#pragma once

#include <memory>

#include "ops/op.h"

namespace dtrain::ops::cpu {

// Requests as in ops/pool2d.h with Pool2d::Kind::kAverage; the workspace, where one is asked for, is empty.
std::unique_ptr<Kernel> make_plain_average_pool(const OpRequest& request);
std::unique_ptr<Kernel> make_plain_average_pool_backward(const OpRequest& request);

}  // namespace dtrain::ops::cpu
