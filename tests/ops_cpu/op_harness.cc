#include "tests/ops_cpu/op_harness.h"

#include <algorithm>

#include "ops/conv2d.h"
#include "tensor/buffer.h"

namespace dtrain::ops::test {
namespace {

constexpr size_t kGuard = 256;
constexpr std::byte kGuardByte{0xa5};

// A buffer between two guards.
class Guarded {
 public:
  Guarded(size_t bytes, std::byte fill) : bytes_(bytes), buffer_(bytes + 2 * kGuard) {
    std::fill_n(buffer_.data(), buffer_.size(), kGuardByte);
    std::fill_n(data(), bytes, fill);
  }
  explicit Guarded(const std::vector<std::byte>& content) : Guarded(content.size(), std::byte{0}) {
    std::copy(content.begin(), content.end(), data());
  }
  std::byte* data() { return buffer_.data() + kGuard; }
  std::vector<std::byte> copy() { return {data(), data() + bytes_}; }
  bool overrun() const {
    const auto guard = [](std::byte b) { return b == kGuardByte; };
    return !std::all_of(buffer_.data(), buffer_.data() + kGuard, guard) ||
           !std::all_of(buffer_.data() + kGuard + bytes_, buffer_.data() + buffer_.size(), guard);
  }

 private:
  size_t bytes_;
  Buffer buffer_;
};

// A value in some layout.
struct Laid {
  TensorDesc desc;
  std::vector<std::byte> bytes;
};

struct Run {
  std::vector<Laid> outputs;
  std::vector<std::string> complaints;
};

Run run_kernel(Kernel& kernel, const std::vector<Laid>& inputs, const RunContext& context, std::byte fill,
               bool in_place) {
  Run result;
  std::vector<Guarded> in, out;
  for (const Laid& v : inputs) in.emplace_back(v.bytes);
  for (const TensorDesc& d : kernel.outputs) out.emplace_back(d.bytes(), fill);
  Guarded scratch(kernel.scratch_bytes, fill);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (Guarded& g : in) from.push_back(g.data());
  for (Guarded& g : out) to.push_back(g.data());
  std::pair<int, int> shared{-1, -1};
  if (in_place) {
    shared = kernel.in_place.front();
    to[static_cast<size_t>(shared.first)] = in[static_cast<size_t>(shared.second)].data();
  }
  kernel.run(from, to, scratch.data(), context);

  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].overrun()) result.complaints.push_back(fmt::format("writes beyond input {}", i));
    if (static_cast<int>(i) != shared.second && in[i].copy() != inputs[i].bytes)
      result.complaints.push_back(fmt::format("changes input {}", i));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].overrun()) result.complaints.push_back(fmt::format("writes beyond output {}", i));
    const bool is_shared = static_cast<int>(i) == shared.first;
    result.outputs.push_back(
        {kernel.outputs[i], is_shared ? in[static_cast<size_t>(shared.second)].copy() : out[i].copy()});
  }
  if (scratch.overrun()) result.complaints.push_back("writes beyond its scratch");
  return result;
}

std::unique_ptr<Kernel> plan(const std::string& backend, const OpRequest& request) {
  auto kernel = OpRegistry::instance().plan(backend, request);
  DTRAIN_CHECK(kernel.has_value(), "{}", kernel.error().message);
  return std::move(*kernel);
}

Laid reordered(const std::string& backend, const Laid& value, const LayoutPtr& layout) {
  if (same_layout(value.desc.layout, layout)) return value;
  TensorDesc wanted = value.desc;
  wanted.layout = layout;
  auto kernel = plan(backend, {"reorder", {}, {value.desc}, {wanted}});
  DTRAIN_CHECK(same_layout(kernel->outputs[0].layout, layout));
  // What a reorder asks of its own input must be what it was given.
  DTRAIN_CHECK(same_layout(kernel->input_layouts[0], value.desc.layout));
  Run run = run_kernel(*kernel, {value}, {}, std::byte{0xff}, false);
  DTRAIN_CHECK(run.complaints.empty(), "reorder {}", run.complaints.front());
  return run.outputs[0];
}

bool is_image(const TensorDesc& d) { return d.shape.rank() == 4 && d.dtype == DType::kF32; }

int64_t nonzero(const std::vector<std::byte>& bytes) {
  const auto* words = reinterpret_cast<const float*>(bytes.data());
  return std::count_if(words, words + bytes.size() / sizeof(float), [](float f) { return f != 0.0f; });
}

// The layout that the backend's convolution of x gives to an output of this shape.
LayoutPtr convolution_layout(const std::string& backend, const TensorDesc& x, const Shape& y) {
  const Conv2d a{.kernel = {3, 3}, .pad = {1, 1}};
  return plan(backend, {"conv2d", a, {x, f32({y[1], x.shape[1], 3, 3})}, {f32(y)}})->outputs[0].layout;
}

LayoutPtr layout_for(const std::string& backend, Images images, const Shape& shape) {
  if (images == Images::kPlain) return nullptr;
  if (images == Images::kConvolved) return convolution_layout(backend, f32(shape), shape);
  TensorDesc x = f32({shape[0], 16, shape[2], shape[3]});
  x.layout = convolution_layout(backend, x, x.shape);
  return convolution_layout(backend, x, shape);
}

struct Planned {
  std::unique_ptr<Kernel> kernel;
  std::vector<Laid> inputs;  // as the kernel wants them
};

Planned prepare(const std::string& backend, const OpRequest& plain_request, const std::vector<Laid>& given,
                Images images, int parameter) {
  OpRequest request = plain_request;
  std::vector<Laid> inputs;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool change = is_image(given[i].desc) && !given[i].desc.layout && static_cast<int>(i) != parameter;
    inputs.push_back(change ? reordered(backend, given[i], layout_for(backend, images, given[i].desc.shape))
                            : given[i]);
    request.inputs[i] = inputs[i].desc;
  }
  Planned planned{plan(backend, request), {}};
  DTRAIN_CHECK(planned.kernel->input_layouts.size() == inputs.size() &&
               planned.kernel->outputs.size() == request.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    planned.inputs.push_back(reordered(backend, inputs[i], planned.kernel->input_layouts[i]));
  return planned;
}

}  // namespace

Outcome run_case(const std::string& backend, const OpCase& c, const HarnessOptions& options) {
  Outcome outcome;
  std::vector<Laid> inputs;
  for (const Value& v : c.inputs) inputs.push_back({v.desc, v.bytes});
  OpRequest request = request_of(c.op, c.attributes, c.inputs, c.outputs);
  const Op* op = OpRegistry::instance().find(backend, c.op);
  DTRAIN_CHECK(op != nullptr, "{} of {}", c.op, backend);

  if (c.forward) {
    OpRequest forward = request_of(c.forward->op, c.attributes, c.forward->inputs, c.forward->outputs);
    if (auto why = OpRegistry::instance().find(backend, forward.op)->unsupported(forward)) {
      outcome.refused = why;
      return outcome;
    }
    std::vector<Laid> forward_inputs;
    for (const Value& v : c.forward->inputs) forward_inputs.push_back({v.desc, v.bytes});
    Planned planned = prepare(backend, forward, forward_inputs, options.images, c.parameter);
    Run run = run_kernel(*planned.kernel, planned.inputs, c.context, std::byte{0xff}, false);
    for (const std::string& complaint : run.complaints) outcome.complaints.push_back("its forward " + complaint);
    inputs[c.forward->as_input] = run.outputs[c.forward->output];
    request.inputs[c.forward->as_input] = inputs[c.forward->as_input].desc;
  }
  if (auto why = op->unsupported(request)) {
    outcome.refused = why;
    return outcome;
  }

  Planned planned = prepare(backend, request, inputs, options.images, c.parameter);
  Kernel& kernel = *planned.kernel;
  outcome.implementation = kernel.implementation();
  if (options.in_place && kernel.in_place.empty()) return outcome;
  Run first = run_kernel(kernel, planned.inputs, c.context, std::byte{0xff}, options.in_place);
  Run second = run_kernel(kernel, planned.inputs, c.context, std::byte{0x3c}, options.in_place);
  outcome.complaints.insert(outcome.complaints.end(), first.complaints.begin(), first.complaints.end());
  for (size_t i = 0; i < first.outputs.size(); ++i) {
    const Laid& laid = first.outputs[i];
    const bool opaque = laid.desc.dtype == DType::kU8;
    if (!opaque && laid.bytes != second.outputs[i].bytes)
      outcome.complaints.push_back(
          fmt::format("output {}: another run gives other bits, or it is not written in full", i));
    const Laid plain = opaque ? laid : reordered(backend, laid, nullptr);
    if (laid.desc.layout && !opaque && nonzero(laid.bytes) != nonzero(plain.bytes))
      outcome.complaints.push_back(fmt::format("output {}: {}", i, kPaddingComplaint));
    outcome.outputs.push_back({plain.desc, plain.bytes});
  }
  return outcome;
}

}  // namespace dtrain::ops::test
