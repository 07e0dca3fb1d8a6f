#include "graph/executable.h"

#include <algorithm>

#include "graph/lowering.h"

namespace dtrain::graph {
namespace {

size_t index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

Result<std::unique_ptr<Executable>> Executable::compile(const Network& network, Mode mode, int64_t micro_batch,
                                                        const std::string& backend) {
  DTRAIN_CHECK(micro_batch > 0, "an empty micro-batch");
  if (mode == Mode::kTrain) {
    for (const NetworkLayer& l : network.layers())
      if (const auto why = l.layer->untrainable_with(micro_batch))
        return fail(ExitCode::kUsage, fmt::format("layer '{}' ({}): {}", l.name, l.type, *why));
  }
  Program program = lower(network, mode, micro_batch, backend);
  Result<Plan> plan = make_plan(std::move(program), backend);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  return std::unique_ptr<Executable>(new Executable(std::move(*plan), network.parameters().size(), mode, micro_batch));
}

Executable::Executable(Plan plan, size_t parameters, Mode mode, int64_t micro_batch)
    : plan_(std::move(plan)), parameters_(parameters), mode_(mode), micro_batch_(micro_batch) {
  copy_valid_.assign(plan_.copies.size(), 0);
  for (const PlanStep& step : plan_.steps) add_step(step);
  inputs_.resize(input_values_.size());
  outputs_.resize(output_values_.size());
  find_readiness();
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
    caller_pointers_.push_back({root.kind, root.parameter, static_cast<uint32_t>(slots.size()), output});
  }
  slots.push_back(value);
}

// Where each parameter is needed first, and after which step it is done with.
void Executable::find_readiness() {
  constexpr int kNever = -1;
  std::vector<int> first_read(parameters_, kNever), done(parameters_, kNever);
  std::vector<bool> written(parameters_, false);
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const auto at = static_cast<int>(s);
    for (ValueId v : plan_.steps[s].inputs) {
      const Value& value = plan_.program.at(plan_.program.root(v));
      if (value.kind != ValueKind::kParameter && value.kind != ValueKind::kParameterCopy) continue;
      if (first_read[index(value.parameter)] == kNever) first_read[index(value.parameter)] = at;
      done[index(value.parameter)] = at;
    }
    for (ValueId v : plan_.steps[s].outputs) {
      const Value& value = plan_.program.at(v);
      if (value.kind != ValueKind::kParameterOut) continue;
      written[index(value.parameter)] = true;
      done[index(value.parameter)] = at;
    }
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    const auto at = static_cast<int>(s);
    steps_[s].first_need = static_cast<uint32_t>(needs_.size());
    steps_[s].first_ready = static_cast<uint32_t>(readies_.size());
    for (size_t p = 0; p < parameters_; ++p) {
      if (first_read[p] == at) needs_.push_back(static_cast<ParameterIndex>(p));
      if (written[p] && done[p] == at) readies_.push_back(static_cast<ParameterIndex>(p));
    }
    steps_[s].needs = static_cast<uint32_t>(needs_.size()) - steps_[s].first_need;
    steps_[s].readies = static_cast<uint32_t>(readies_.size()) - steps_[s].first_ready;
  }
}

void Executable::parameter_changed(ParameterIndex parameter) {
  for (size_t c = 0; c < plan_.copies.size(); ++c)
    if (plan_.copies[c].parameter == parameter) copy_valid_[c] = 0;
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
    } else {
      inputs_[p.slot] = p.kind == ValueKind::kSample ? feed.samples : feed.labels;
    }
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
    for (uint32_t n = 0; n < step.needs; ++n) DTRAIN_TRY(observer.need_parameter(needs_[step.first_need + n]));
    if (step.copy < 0 || !copy_valid_[index(step.copy)]) {
      step.kernel->run({inputs_.data() + step.first_input, step.inputs},
                       {outputs_.data() + step.first_output, step.outputs}, scratch_.data(), context);
      if (step.copy >= 0) copy_valid_[index(step.copy)] = 1;
    }
    if (step.metrics) observer.metrics_ready();
    for (uint32_t r = 0; r < step.readies; ++r) observer.ready(readies_[step.first_ready + r]);
    DTRAIN_TRY(observer.step_done(static_cast<int>(i)));
  }
  return {};
}

}  // namespace dtrain::graph
