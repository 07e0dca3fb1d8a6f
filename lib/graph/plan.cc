#include "graph/plan.h"

#include <algorithm>

#include "graph/placement.h"
#include "ops/registry.h"

namespace dtrain::graph {
namespace {

class Planner {
 public:
  Planner(Program program, const std::string& backend, DType compute) : backend_(backend), compute_(compute) {
    nodes_ = std::move(program.nodes);
    plan_.program.values = std::move(program.values);
    for (const Value& v : plan_.program.values) plan_.descs.push_back({v.shape, v.dtype, nullptr});
    variants_.resize(plan_.descs.size());
  }

  Result<Plan> run() {
    for (Node& node : nodes_) DTRAIN_TRY(add(node));
    return std::move(plan_);
  }

 private:
  Status add(Node& node) {
    ops::OpRequest request{node.op, std::move(node.attributes), {}, {}, compute_};
    for (ValueId& v : node.inputs) {
      DTRAIN_TRY(flatten_view(v));
      request.inputs.push_back(plan_.descs[index(v)]);
    }
    for (ValueId v : node.outputs) request.outputs.push_back(plan_.descs[index(v)]);
    DTRAIN_TRY_ASSIGN(auto kernel, ops::OpRegistry::instance().plan(backend_, request));
    DTRAIN_CHECK(kernel->input_layouts.size() == node.inputs.size() && kernel->outputs.size() == node.outputs.size(),
                 "the kernel of {} does not describe its inputs and outputs", node.op);

    PlanStep step{node.op, std::move(kernel), {}, {}, node.layer, -1};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto& types = step.kernel->input_types;
      const DType type = types.empty() ? plan_.descs[index(node.inputs[i])].dtype : types[i];
      DTRAIN_TRY_ASSIGN(ValueId input, in_form(node.inputs[i], type, step.kernel->input_layouts[i], node.layer));
      step.inputs.push_back(input);
    }
    std::vector<std::pair<ValueId, ValueId>> to_caller;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      const ops::TensorDesc& made = step.kernel->outputs[i];
      if (plan_.program.at(output).kind == ValueKind::kTemporary) {
        plan_.descs[index(output)] = made;
        step.outputs.push_back(output);
      } else if (made.layout == nullptr) {
        step.outputs.push_back(output);
      } else {  // what the caller gets is plain
        step.outputs.push_back(new_value({.shape = made.shape, .dtype = made.dtype}, made));
        to_caller.emplace_back(step.outputs.back(), output);
      }
    }
    plan_.steps.push_back(std::move(step));
    for (auto [from, to] : to_caller) DTRAIN_TRY(reorder(from, to, node.layer, -1));
    return {};
  }

  // A view needs its base in plain layout: makes it so.
  Status flatten_view(ValueId v) {
    const ValueId base = plan_.program.at(v).view_of;
    if (base == kNoValue) return {};
    DTRAIN_TRY(flatten_view(base));
    DTRAIN_TRY_ASSIGN(const ValueId plain, in_form(base, plan_.descs[index(base)].dtype, nullptr, -1));
    plan_.program.at(v).view_of = plain;
    return {};
  }

  // `v` where it has that type and layout already, else its reordered variant, made here unless an earlier reader asked
  // for it.
  Result<ValueId> in_form(ValueId v, DType type, const ops::LayoutPtr& layout, int layer) {
    const auto fits = [&](ValueId candidate) {
      const ops::TensorDesc& desc = plan_.descs[index(candidate)];
      return desc.dtype == type && ops::same_layout(desc.layout, layout);
    };
    if (fits(v)) return v;
    for (ValueId variant : variants_[index(v)])
      if (fits(variant)) return variant;
    Value value = plan_.program.at(v);
    value.dtype = type;
    const bool parameter = value.kind == ValueKind::kParameter && !value.transient;
    value.kind = parameter ? ValueKind::kParameterCopy : ValueKind::kTemporary;
    value.view_of = kNoValue;
    const ValueId variant = new_value(value, {value.shape, value.dtype, layout});
    int copy = -1;
    if (parameter) {
      copy = static_cast<int>(plan_.copies.size());
      plan_.copies.push_back({value.parameter, variant});
    }
    DTRAIN_TRY(reorder(v, variant, layer, copy));
    variants_[index(v)].push_back(variant);
    return variant;
  }

  Status reorder(ValueId from, ValueId to, int layer, int copy) {
    DTRAIN_TRY_ASSIGN(auto kernel,
                      ops::OpRegistry::instance().plan(
                          backend_, {"reorder", {}, {plan_.descs[index(from)]}, {plan_.descs[index(to)]}}));
    plan_.steps.push_back({"reorder", std::move(kernel), {from}, {to}, layer, copy});
    return {};
  }

  ValueId new_value(Value value, ops::TensorDesc desc) {
    plan_.descs.push_back(std::move(desc));
    variants_.emplace_back();
    return plan_.program.add(std::move(value));
  }

  static size_t index(ValueId v) { return static_cast<size_t>(v); }

  const std::string& backend_;
  const DType compute_;
  Plan plan_;
  std::vector<Node> nodes_;
  std::vector<std::vector<ValueId>> variants_;  // of each value: the same elements in other layouts
};

}  // namespace

Result<Plan> plan_steps(Program program, const std::string& backend, DType compute) {
  return Planner(std::move(program), backend, compute).run();
}

void place_values(Plan& plan) {
  plan.readiness = find_readiness(plan.steps, plan.program);
  assign_places(plan);
}

Result<Plan> make_plan(Program program, const std::string& backend, DType compute) {
  DTRAIN_TRY_ASSIGN(Plan plan, plan_steps(std::move(program), backend, compute));
  place_values(plan);
  return plan;
}

}  // namespace dtrain::graph
