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
  DTRAIN_TRY_ASSIGN(Plan plan, plan_steps(std::move(program), backend, options.compute));
  Stage stage = cut_stage(plan, options.split, options.task);
  place_values(plan);
  return std::unique_ptr<Executable>(
      new Executable(std::move(plan), std::move(stage), network.parameters().size(), mode, micro_batch));
}

Executable::Executable(Plan plan, Stage stage, size_t parameters, Mode mode, int64_t micro_batch)
    : plan_(std::move(plan)),
      stage_(std::move(stage)),
      parameters_(parameters),
      mode_(mode),
      micro_batch_(micro_batch) {
  copy_valid_.assign(plan_.copies.size(), 0);
  for (const PlanStep& step : plan_.steps) add_step(step);
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
    const ValueId root = plan_.program.root(value);
    const Value& of = plan_.program.at(root);
    int32_t which = of.parameter;
    if (of.kind == ValueKind::kLookup) which = of.lookup;
    if (of.kind == ValueKind::kImport) {
      const auto at = std::ranges::lower_bound(stage_.imports, root, {}, &Stage::Import::value);
      which = static_cast<int32_t>(at - stage_.imports.begin());
    }
    caller_pointers_.push_back({of.kind, which, static_cast<uint32_t>(slots.size()), output});
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

bool Executable::reads(ParameterIndex parameter) const {
  return std::ranges::any_of(plan_.readiness.before, [&](const std::vector<ParameterIndex>& first_read) {
    return std::ranges::find(first_read, parameter) != first_read.end();
  });
}

std::byte* Executable::pointer(Lane& lane, ValueId value) {
  const Plan::Place& place = plan_.places[index(value)];
  if (place.space == Plan::Space::kCaller) return nullptr;
  return (place.space == Plan::Space::kArena ? lane.arena_.data() : persistent_.data()) + place.offset;
}

void Executable::allocate(Lane& lane) {
  if (!allocated_) {
    scratch_ = Buffer(plan_.scratch_bytes);
    persistent_ = Buffer(plan_.persistent_bytes);
    allocated_ = true;
  }
  lane.arena_ = Buffer(plan_.arena_bytes);
  for (ValueId v : input_values_) lane.inputs_.push_back(pointer(lane, v));
  for (ValueId v : output_values_) lane.outputs_.push_back(pointer(lane, v));
  lane.allocated_ = true;
}

void Executable::bind(Lane& lane, const Feed& feed, const Binding& binding) const {
  for (const CallerPointer& p : caller_pointers_) {
    if (p.output) {
      lane.outputs_[p.slot] = p.kind == ValueKind::kMetrics      ? static_cast<void*>(binding.metrics)
                              : p.kind == ValueKind::kPrediction ? binding.prediction
                                                                 : binding.outputs[index(p.index)];
    } else if (p.kind == ValueKind::kParameter) {
      lane.inputs_[p.slot] = binding.values[index(p.index)];
    } else if (p.kind == ValueKind::kImport) {
      lane.inputs_[p.slot] = feed.imports[index(p.index)];
    } else if (p.kind == ValueKind::kLookup) {
      lane.inputs_[p.slot] = feed.lookups[index(p.index)];
    } else {
      lane.inputs_[p.slot] = p.kind == ValueKind::kSample ? feed.samples : feed.labels;
    }
  }
}

void Executable::hand_over(const Lane& lane, size_t step, const Binding& binding, Observer& observer) {
  for (ValueId v : plan_.readiness.after[step]) {
    const Value& value = plan_.program.at(v);
    float* callers = binding.outputs[index(value.parameter)];
    ParameterOutput out{value.parameter, value.first, value.count > 0 ? value.count : value.shape.elements(), callers};
    if (value.own) {
      const float* made =
          reinterpret_cast<const float*>(lane.arena_.data() + plan_.places[index(v)].offset) + value.skip;
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

void Executable::export_values(Lane& lane, int step, Observer& observer) {
  const auto range = std::ranges::equal_range(stage_.exports, step, {}, &Stage::Export::after);
  for (auto at = range.begin(); at != range.end(); ++at)
    observer.exported(static_cast<int>(at - stage_.exports.begin()), {pointer(lane, at->value), at->bytes});
}

Status Executable::run(const Feed& feed, const Binding& binding, const ops::RunContext& context, Observer& observer) {
  DTRAIN_CHECK(stage_.imports.empty() && stage_.segments.size() == 1, "one stage of a network, run as a whole");
  return run_segment(lane_, 0, feed, binding, context, observer);
}

Status Executable::run_segment(Lane& lane, size_t segment, const Feed& feed, const Binding& binding,
                               const ops::RunContext& context, Observer& observer) {
  DTRAIN_CHECK(binding.values.size() == parameters_, "{} values for {} parameters", binding.values.size(), parameters_);
  DTRAIN_CHECK(mode_ != Mode::kTrain || binding.outputs.size() == parameters_, "{} outputs for {} parameters",
               binding.outputs.size(), parameters_);
  DTRAIN_CHECK(feed.imports.size() == stage_.imports.size(), "{} of {} imports", feed.imports.size(),
               stage_.imports.size());
  if (!lane.allocated_) allocate(lane);
  bind(lane, feed, binding);
  const Stage::Segment& range = stage_.segments[segment];
  for (auto i = static_cast<size_t>(range.first); i < static_cast<size_t>(range.last); ++i) {
    const Step& step = steps_[i];
    for (ParameterIndex p : plan_.readiness.before[i]) DTRAIN_TRY(observer.need_parameter(p));
    if (step.copy < 0 || !copy_valid_[index(step.copy)]) {
      step.kernel->run({lane.inputs_.data() + step.first_input, step.inputs},
                       {lane.outputs_.data() + step.first_output, step.outputs}, scratch_.data(), context);
      if (step.copy >= 0) copy_valid_[index(step.copy)] = 1;
    }
    observer.computed(static_cast<int>(i));
    if (step.metrics) observer.metrics_ready();
    export_values(lane, static_cast<int>(i), observer);
    hand_over(lane, i, binding, observer);
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
