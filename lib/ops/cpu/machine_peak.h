// The best rates that this machine gives to the calling thread and its OpenMP threads, measured: what a profile puts
// beside the rates of a training step, so that the gap is visible.
#pragma once

namespace dtrain::ops::cpu {

struct MachinePeak {
  double gflops = 0;       // of the fastest of some large fp32 matrix products by oneDNN, operands as it likes them
  double bf16_gflops = 0;  // the same with bf16 operands and fp32 sums; 0 where the processor has no such instructions
  double gbytes = 0;       // GB/s read and written by y = a·x + y over arrays that no private cache holds
};

// Takes about a second; the best of several tries each.
MachinePeak measure_peak();

}  // namespace dtrain::ops::cpu
