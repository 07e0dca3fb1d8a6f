#include "ops/cpu/fingerprint.h"

#include <array>

#include "base/nearest.h"
#include "base/philox.h"
#include "base/sha256.h"
#include "ops/conv2d.h"
#include "ops/cpu/onednn.h"
#include "ops/linear.h"
#include "ops/registry.h"
#include "tensor/buffer.h"

namespace dtrain::ops::cpu {
namespace {

struct Row {
  std::string_view name;
  dnnl::cpu_isa isa;
};
constexpr Row kRows[] = {
    {"sse41", dnnl::cpu_isa::sse41},
    {"avx", dnnl::cpu_isa::avx},
    {"avx2", dnnl::cpu_isa::avx2},
    {"avx2_vnni", dnnl::cpu_isa::avx2_vnni},
    {"avx512_core", dnnl::cpu_isa::avx512_core},
    {"avx512_core_vnni", dnnl::cpu_isa::avx512_core_vnni},
    {"avx512_core_bf16", dnnl::cpu_isa::avx512_core_bf16},
    {"avx512_core_amx", dnnl::cpu_isa::avx512_core_amx},
};

// Runs ops one after the other on values that it keeps, in the layouts that they get.
class Probe {
 public:
  explicit Probe(Sha256& digest) : digest_(digest) {}

  struct Value {
    TensorDesc desc;
    Buffer data;
  };

  static TensorDesc desc(Shape shape) { return {std::move(shape), DType::kF32, nullptr}; }

  // Numbers in [−½, ½), the same everywhere.
  static Value numbers(Shape shape, uint32_t stream) {
    Value v{desc(std::move(shape)), {}};
    v.data = Buffer(v.desc.bytes());
    const Philox random(0, stream, 0, 0);
    uint64_t i = 0;
    for (float& x : v.data.as<float>()) x = uniform01(random.at(i++)) - 0.5f;
    return v;
  }

  // The op's outputs, row-major; they enter the digest.
  Result<std::vector<Value>> run(const std::string& op, std::any attributes, std::vector<const Value*> inputs,
                                 std::vector<Shape> outputs) {
    OpRequest request{op, std::move(attributes), {}, {}};
    for (const Value* v : inputs) request.inputs.push_back(v->desc);
    for (Shape& s : outputs) request.outputs.push_back(desc(std::move(s)));
    DTRAIN_TRY_ASSIGN(auto kernel, OpRegistry::instance().plan("cpu", request));

    std::vector<Value> in(inputs.size());
    std::vector<const void*> from;
    for (size_t i = 0; i < inputs.size(); ++i) {
      DTRAIN_TRY_ASSIGN(in[i], reordered(*inputs[i], kernel->input_layouts[i]));
      from.push_back(in[i].data.data());
    }
    std::vector<Value> out;
    std::vector<void*> to;
    for (const TensorDesc& d : kernel->outputs) {
      out.push_back({d, Buffer(d.bytes())});
      to.push_back(out.back().data.data());
    }
    Buffer scratch(kernel->scratch_bytes);
    kernel->run(from, to, scratch.data(), {});
    for (Value& v : out) {
      DTRAIN_TRY_ASSIGN(v, reordered(v, nullptr));
      digest_.update(ByteSpan(v.data.data(), v.data.size()));
    }
    return out;
  }

 private:
  static Result<Value> reordered(const Value& v, const LayoutPtr& layout) {
    OpRequest request{"reorder", {}, {v.desc}, {{v.desc.shape, v.desc.dtype, layout}}};
    DTRAIN_TRY_ASSIGN(auto kernel, OpRegistry::instance().plan("cpu", request));
    Value result{request.outputs[0], Buffer(request.outputs[0].bytes())};
    const void* from[] = {v.data.data()};
    void* to[] = {result.data.data()};
    Buffer scratch(kernel->scratch_bytes);
    kernel->run(from, to, scratch.data(), {});
    return result;
  }

  Sha256& digest_;
};

Status run_probe(Sha256& digest) {
  Probe probe(digest);
  const auto x = Probe::numbers({4, 16, 12, 12}, 1), w = Probe::numbers({32, 16, 3, 3}, 2), b = Probe::numbers({32}, 3);
  Conv2d conv;
  conv.kernel = {3, 3};
  conv.pad = {1, 1};
  DTRAIN_TRY_ASSIGN(auto y, probe.run("conv2d", conv, {&x, &w, &b}, {{4, 32, 12, 12}}));
  DTRAIN_TRY(probe.run("conv2d.backward_data", conv, {&y[0], &w}, {{4, 16, 12, 12}}));
  DTRAIN_TRY(probe.run("conv2d.backward_weights", conv, {&x, &y[0]}, {{32, 16, 3, 3}, {32}}));

  const auto rows = Probe::numbers({24, 200}, 4), weights = Probe::numbers({70, 200}, 5),
             bias = Probe::numbers({70}, 6);
  DTRAIN_TRY_ASSIGN(auto z, probe.run("linear", Linear{}, {&rows, &weights, &bias}, {{24, 70}}));
  DTRAIN_TRY(probe.run("linear.backward_data", Linear{}, {&z[0], &weights}, {{24, 200}}));
  DTRAIN_TRY(probe.run("linear.backward_weights", Linear{}, {&rows, &z[0]}, {{70, 200}, {70}}));
  return {};
}

}  // namespace

namespace {
bool winograd = true;
}  // namespace

void set_winograd(bool allowed) { winograd = allowed; }
bool winograd_allowed() { return winograd; }

std::string isa_in_use() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  for (const Row& r : kRows)
    if (r.isa == isa) return std::string(r.name);
  return fmt::format("{:#x}", static_cast<unsigned>(isa));
}

std::string onednn_version() {
  const dnnl_version_t& v = *dnnl_version();
  return fmt::format("{}.{}.{}", v.major, v.minor, v.patch);
}

bool has_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto bf16 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & bf16) == bf16;
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Row& r : kRows) names.emplace_back(r.name);
  return names;
}

Status set_isa(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name != name) continue;
    const dnnl::status status = dnnl::set_max_cpu_isa(r.isa);
    const std::string now = isa_in_use();
    if (now == name) return {};
    if (status != dnnl::status::success)
      return fail(ExitCode::kUsage,
                  fmt::format("the instruction set '{}' comes too late: {} is in use already", name, now));
    return fail(ExitCode::kUsage,
                fmt::format("this CPU has not got the instruction set '{}'; its best below is {}", name, now));
  }
  const auto names = isa_names();
  return fail(ExitCode::kUsage,
              fmt::format("unknown instruction set '{}'{}", name, suggestion(std::string(name), names)));
}

Result<std::string> fingerprint() {
  Sha256 digest;
  DTRAIN_TRY(run_probe(digest));
  return fmt::format("onednn {}, isa {}, probe {}", onednn_version(), isa_in_use(), to_hex(digest.finish()));
}

}  // namespace dtrain::ops::cpu
