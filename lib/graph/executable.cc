#include "graph/executable.h"

#include <algorithm>
#include <cstring>

#include "graph/lowering.h"

namespace dtrain::graph {
namespace {

size_t index(int32_t i) { return static_cast<size_t>(i); }

bool is_gradient(const Network& network, ParameterIndex p) {
  return network.parameters()[index(p)].kind == ParameterKind::kTrainable;
}

bool is_sparse(const Network& network, ParameterIndex p) {
  return network.parameters()[index(p)].kind == ParameterKind::kSparse;
}

}  // namespace

Result<std::unique_ptr<Executable>> Executable::compile(const Network& network, Mode mode, int64_t micro_batch,
                                                        const std::string& backend, const CompileOptions& options) {
  DTRAIN_CHECK(micro_batch > 0, "an empty micro-batch");
  if (mode == Mode::kTrain) {
    for (const NetworkLayer& l : network.layers())
      if (const auto why = l.layer->untrainable_with(micro_batch))
        return fail(ExitCode::kUsage, fmt::format("layer '{}' ({}): {}", l.name, l.type, *why));
  }
  Program program = lower(network, mode, micro_batch, backend);
  for (Value& v : program.values) {
    const bool used_at_once = options.own_gradients && v.parameter >= 0 && is_gradient(network, v.parameter);
    if (v.kind == ValueKind::kParameterOut) v.own = v.count > 0 || used_at_once;
    if (v.kind == ValueKind::kParameter) v.transient = used_at_once || is_sparse(network, v.parameter);
  }
  Result<Plan> plan = make_plan(std::move(program), backend, options.compute);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  return std::unique_ptr<Executable>(new Executable(std::move(*plan), network.parameters().size(), mode, micro_batch));
}

Executable::Executable(Plan plan, size_t parameters, Mode mode, int64_t micro_batch)
    : plan_(std::move(plan)), parameters_(parameters), mode_(mode), micro_batch_(micro_batch) {
  copy_valid_.assign(plan_.copies.size(), 0);
  for (const PlanStep& step : plan_.steps) add_step(step);
  inputs_.resize(input_values_.size());
  outputs_.resize(output_values_.size());
}

void Executable::add_step(const PlanStep& step) {
  Step s{};
  s.kernel = step.kernel.get();
  s.copy = step.copy;
  s.first_input = static_cast<uint32_t>(input_values_.size());
  s.inputs = static_cast<uint32_t>(step.inputs.size());
  for (ValueId v : step.inputs) add_slot(v, false);
  s.first_output = static_cast<uint32_t>(output_values_.size());
  s.outputs = static_cast<uint32_t>(step.outputs.size());
  for (ValueId v : step.outputs) {
    add_slot(v, true);
    s.metrics = s.metrics || plan_.program.at(v).kind == ValueKind::kMetrics;
  }
  steps_.push_back(s);
}

void Executable::add_slot(ValueId value, bool output) {
  std::vector<ValueId>& slots = output ? output_values_ : input_values_;
  if (plan_.places[index(value)].space == Plan::Space::kCaller) {
    const Value& root = plan_.program.at(plan_.program.root(value));
    const int32_t which = root.kind == ValueKind::kLookup ? root.lookup : root.parameter;
    caller_pointers_.push_back({root.kind, which, static_cast<uint32_t>(slots.size()), output});
  }
  slots.push_back(value);
}

void Executable::parameter_changed(ParameterIndex parameter) {
  for (size_t c = 0; c < plan_.copies.size(); ++c)
    if (plan_.copies[c].parameter == parameter) copy_valid_[c] = 0;
}

size_t Executable::bytes_moved(int step) const {
  size_t bytes = 0;
  for (ValueId v : plan_.steps[index(step)].inputs) bytes += plan_.descs[index(v)].bytes();
  for (ValueId v : plan_.steps[index(step)].outputs) bytes += plan_.descs[index(v)].bytes();
  return bytes;
}

void Executable::allocate() {
  arena_ = Buffer(plan_.arena_bytes);
  scratch_ = Buffer(plan_.scratch_bytes);
  persistent_ = Buffer(plan_.persistent_bytes);
  const auto pointer = [&](ValueId v) -> std::byte* {
    const Plan::Place& place = plan_.places[index(v)];
    if (place.space == Plan::Space::kCaller) return nullptr;
    return (place.space == Plan::Space::kArena ? arena_.data() : persistent_.data()) + place.offset;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = pointer(input_values_[i]);
  for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = pointer(output_values_[i]);
  allocated_ = true;
}

void Executable::bind(const Feed& feed, const Binding& binding) {
  for (const CallerPointer& p : caller_pointers_) {
    if (p.output) {
      outputs_[p.slot] = p.kind == ValueKind::kMetrics      ? static_cast<void*>(binding.metrics)
                         : p.kind == ValueKind::kPrediction ? binding.prediction
                                                            : binding.outputs[index(p.parameter)];
    } else if (p.kind == ValueKind::kParameter) {
      inputs_[p.slot] = binding.values[index(p.parameter)];
    } else if (p.kind == ValueKind::kLookup) {
      inputs_[p.slot] = feed.lookups[index(p.parameter)];
    } else {
      inputs_[p.slot] = p.kind == ValueKind::kSample ? feed.samples : feed.labels;
    }
  }
}

void Executable::hand_over(size_t step, const Binding& binding, Observer& observer) {
  for (ValueId v : plan_.readiness.after[step]) {
    const Value& value = plan_.program.at(v);
    float* callers = binding.outputs[index(value.parameter)];
    ParameterOutput out{value.parameter, value.first, value.count > 0 ? value.count : value.shape.elements(), callers};
    if (value.own) {
      const float* made = reinterpret_cast<const float*>(arena_.data() + plan_.places[index(v)].offset) + value.skip;
      if (callers) {
        std::memcpy(callers + out.first, made, static_cast<size_t>(out.elements) * sizeof(float));
        out.values = callers + out.first;
      } else {
        out.values = made;
      }
    }
    observer.ready(out);
  }
}

Status Executable::run(const Feed& feed, const Binding& binding, const ops::RunContext& context, Observer& observer) {
  DTRAIN_CHECK(binding.values.size() == parameters_, "{} values for {} parameters", binding.values.size(), parameters_);
  DTRAIN_CHECK(mode_ != Mode::kTrain || binding.outputs.size() == parameters_, "{} outputs for {} parameters",
               binding.outputs.size(), parameters_);
  if (!allocated_) allocate();
  bind(feed, binding);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    for (ParameterIndex p : plan_.readiness.before[i]) DTRAIN_TRY(observer.need_parameter(p));
    if (step.copy < 0 || !copy_valid_[index(step.copy)]) {
      step.kernel->run({inputs_.data() + step.first_input, step.inputs},
                       {outputs_.data() + step.first_output, step.outputs}, scratch_.data(), context);
      if (step.copy >= 0) copy_valid_[index(step.copy)] = 1;
    }
    observer.computed(static_cast<int>(i));
    if (step.metrics) observer.metrics_ready();
    hand_over(i, binding, observer);
    DTRAIN_TRY(observer.step_done(static_cast<int>(i)));
  }
  return {};
}

Status Executable::rehearse(Observer& observer) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    for (ParameterIndex p : plan_.readiness.before[i]) DTRAIN_TRY(observer.need_parameter(p));
    observer.computed(static_cast<int>(i));
    if (steps_[i].metrics) observer.metrics_ready();
    for (ValueId v : plan_.readiness.after[i]) {
      const Value& value = plan_.program.at(v);
      observer.ready({value.parameter, value.first, value.count > 0 ? value.count : value.shape.elements(), nullptr});
    }
    DTRAIN_TRY(observer.step_done(static_cast<int>(i)));
  }
  return {};
}

}  // namespace dtrain::graph
