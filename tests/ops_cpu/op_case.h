// One case of the op suite: a request with its inputs, and how near to the reference a backend must come. Each file
// *_cases.cc lists the cases of one family; op_suite_test.cc runs every case on every registered backend.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/activation.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {

// Where a backward op gets its workspace: output `output` of this forward request, on the same backend, becomes its
// last or named input.
struct Forward {
  std::string op;
  std::vector<Value> inputs;
  std::vector<TensorDesc> outputs;
  size_t output;    // which of them is the workspace
  size_t as_input;  // of the backward op
};

struct OpCase {
  std::string name;  // letters, digits, underscores
  std::string op;
  std::any attributes;
  std::vector<Value> inputs;
  std::vector<TensorDesc> outputs;
  std::optional<Forward> forward;
  RunContext context{.seed = 7, .step = 3, .first_sample = 5, .valid = 0};

  // |difference| ≤ tolerance · (|reference| + root mean square of the output)
  double tolerance = 1e-5;
  // Element of input 0 that becomes NaN in one more run, whose NaNs must be where the reference has them; −1: not done.
  int64_t nan_at = -1;
  // A backend may say that it does not support this one.
  bool refusable = false;
  // An input that is a parameter, always row-major; −1: none. Images among the others come in the layouts of
  // convolutions' outputs too.
  int parameter = -1;
};

// Whether the activation must give NaN for NaN (see ops/activation.h).
inline bool keeps_nan(const Activation& a) {
  return a.kind != ActivationKind::kRelu && a.kind != ActivationKind::kRelu6 && a.kind != ActivationKind::kSigmoid;
}

std::vector<OpCase> convolution_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> pooling_cases();
std::vector<OpCase> batch_norm_cases();
std::vector<OpCase> layer_norm_cases();
std::vector<OpCase> group_norm_cases();
std::vector<OpCase> lrn_cases();
std::vector<OpCase> activation_cases();
std::vector<OpCase> softmax_cases();
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> recurrent_cases();
std::vector<OpCase> embedding_cases();
std::vector<OpCase> attention_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> shape_cases();

}  // namespace dtrain::ops::test
