// Maximum pooling on layouts where channels lie side by side (channels-last or blocked). Several times as fast as
// oneDNN's for small windows: it compares whole vectors of channels and keeps the winners' places in bytes.
#pragma once

#include <memory>

#include "ops/cpu/onednn.h"

namespace dtrain::ops::cpu {

// Requests as in ops/pool2d.h with Pool2d::Kind::kMax, for an x that lies as `x` says; nullptr where this kernel does
// not apply (other layouts, windows of more than 255 places, windows that may lie in padding altogether).
std::unique_ptr<Kernel> make_max_pool(const OpRequest& request, const dnnl::memory::desc& x);
// `x` is the forward's, from the workspace's layout; it applies where the forward's does.
std::unique_ptr<Kernel> make_max_pool_backward(const OpRequest& request, const dnnl::memory::desc& x);

}  // namespace dtrain::ops::cpu
