#include "node/arithmetic.h"

#include "ops/cpu/fingerprint.h"

namespace dtrain::node {

Status set_up_arithmetic(const config::TrainSpec& train) {
  if (!train.isa.empty()) DTRAIN_TRY(ops::cpu::set_isa(train.isa));
  ops::cpu::set_winograd(train.winograd);
  if (train.precision == "fp16")
    return fail(ExitCode::kUsage,
                "train.precision = \"fp16\" is for GPUs, which this dtrain does not drive: use \"bf16\", or \"fp32\"");
  if (train.precision == "bf16" && !ops::cpu::has_bf16())
    return fail(ExitCode::kUsage,
                train.isa.empty()
                    ? "train.precision = \"bf16\" needs a processor with AVX512_BF16 or AMX, which this one has not: "
                      "use \"fp32\""
                    : "train.precision = \"bf16\" needs AVX512_BF16 or AMX, which this processor has not or train.isa "
                      "leaves out: use \"fp32\"");
  return {};
}

DType compute_type(const config::TrainSpec& train) { return train.precision == "bf16" ? DType::kBF16 : DType::kF32; }

}  // namespace dtrain::node
