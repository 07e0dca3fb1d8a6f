#include "graph/placement.h"

#include <algorithm>
#include <climits>

#include "graph/arena.h"
#include "tensor/buffer.h"

namespace dtrain::graph {
namespace {

size_t index(ValueId v) { return static_cast<size_t>(v); }

class Placement {
 public:
  explicit Placement(Plan& plan) : plan_(plan), items_(plan.descs.size()), owner_(plan.descs.size()) {
    for (size_t v = 0; v < owner_.size(); ++v) owner_[v] = plan.program.root(static_cast<ValueId>(v));
  }

  void run() {
    find_lives();
    for (size_t s = 0; s < plan_.steps.size(); ++s) take_over(plan_.steps[s], static_cast<int>(s));
    place_all();
    for (const PlanStep& step : plan_.steps)
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, step.kernel->scratch_bytes);
  }

 private:
  bool in_arena(ValueId v) const {
    const Value& value = plan_.program.at(plan_.program.root(v));
    return value.kind == ValueKind::kTemporary || value.own;
  }
  // The value whose memory `v` uses.
  ValueId owner(ValueId v) const {
    while (owner_[index(v)] != v) v = owner_[index(v)];
    return v;
  }

  void find_lives() {
    for (size_t v = 0; v < items_.size(); ++v) items_[v] = {plan_.descs[v].bytes(), INT_MAX, -1, 0};
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      for (ValueId v : plan_.steps[s].inputs) touch(v, static_cast<int>(s));
      for (ValueId v : plan_.steps[s].outputs) touch(v, static_cast<int>(s));
      for (ValueId v : plan_.readiness.after[s]) touch(v, static_cast<int>(s));
    }
  }

  void touch(ValueId v, int step) {
    ArenaItem& item = items_[index(owner(v))];
    item.first = std::min(item.first, step);
    item.last = std::max(item.last, step);
  }

  void take_over(const PlanStep& step, int s) {
    for (auto [o, i] : step.kernel->in_place) {
      const ValueId out = step.outputs[static_cast<size_t>(o)], in = step.inputs[static_cast<size_t>(i)];
      if (!in_arena(out) || !in_arena(in)) continue;
      const ValueId from = owner(in);
      ArenaItem& old = items_[index(from)];
      const ArenaItem& fresh = items_[index(out)];
      const auto readers =
          std::count_if(step.inputs.begin(), step.inputs.end(), [&](ValueId v) { return owner(v) == from; });
      if (owner(out) != out || old.last != s || readers != 1 || fresh.first != s || fresh.bytes > old.bytes) continue;
      owner_[index(out)] = from;
      old.last = std::max(old.last, fresh.last);
    }
  }

  void place_all() {
    std::vector<ArenaItem> arena;
    std::vector<size_t> values;
    plan_.places.assign(items_.size(), {});
    for (size_t v = 0; v < items_.size(); ++v) {
      const ValueId id = static_cast<ValueId>(v);
      const ValueKind kind = plan_.program.at(plan_.program.root(id)).kind;
      if (kind == ValueKind::kParameterCopy) {
        if (items_[v].last < 0) continue;  // of another stage
        plan_.places[v] = {Plan::Space::kPersistent, plan_.persistent_bytes};
        plan_.persistent_bytes += (items_[v].bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
      } else if (!in_arena(id)) {
        plan_.places[v].space = Plan::Space::kCaller;
      } else if (owner(id) == id && items_[v].last >= 0) {
        arena.push_back(items_[v]);
        values.push_back(v);
      }
    }
    plan_.arena_bytes = place(arena);
    for (size_t i = 0; i < arena.size(); ++i) plan_.places[values[i]].offset = arena[i].offset;
    for (size_t v = 0; v < items_.size(); ++v) plan_.places[v] = plan_.places[index(owner(static_cast<ValueId>(v)))];
  }

  Plan& plan_;
  std::vector<ArenaItem> items_;  // of each value that owns memory
  std::vector<ValueId> owner_;    // the value whose memory it shares, itself where it has its own
};

}  // namespace

void assign_places(Plan& plan) { Placement(plan).run(); }

}  // namespace dtrain::graph
