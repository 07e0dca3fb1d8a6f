#include "graph/stage.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace dtrain::graph {
namespace {

using Tasks = std::set<int>;

size_t index(ValueId v) { return static_cast<size_t>(v); }

class Cutter {
 public:
  Cutter(Plan& plan, const Split* split, int task) : plan_(plan), split_(split), task_(task) {}

  Stage run() {
    find_owners();
    find_loss();
    keep_own_steps();
    find_exports();
    find_segments();
    for (const Stage::Import& import : stage_.imports) plan_.program.at(import.value).kind = ValueKind::kImport;
    return std::move(stage_);
  }

 private:
  // Whatever is not the caller's is made by steps.
  bool is_made(ValueId root) const {
    const ValueKind kind = plan_.program.at(root).kind;
    return kind == ValueKind::kTemporary || kind == ValueKind::kParameterCopy;
  }

  // A reorder of a value that stays inside: cheap beside sending what it makes, so whoever reads that runs its own.
  bool repeated(const PlanStep& step) const {
    return step.op == "reorder" && is_made(plan_.program.root(step.outputs.front()));
  }

  // Of each step the tasks that run it, of each value those that read it. From the end: readers come behind.
  void find_owners() {
    runs_on_.resize(plan_.steps.size());
    readers_.resize(plan_.program.values.size());
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const PlanStep& step = plan_.steps[s];
      if (!split_) {
        runs_on_[s] = {task_};
      } else if (repeated(step)) {
        runs_on_[s] = readers_[index(plan_.program.root(step.outputs.front()))];
      } else {
        DTRAIN_CHECK(step.layer >= 0, "{} belongs to no layer", step.op);
        runs_on_[s] = {split_->task_of_layer[static_cast<size_t>(step.layer)]};
        for (ValueId v : step.outputs) maker_[plan_.program.root(v)] = *runs_on_[s].begin();
      }
      for (ValueId v : step.inputs)
        readers_[index(plan_.program.root(v))].insert(runs_on_[s].begin(), runs_on_[s].end());
    }
  }

  void find_loss() {
    loss_ = plan_.steps.size();
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (ValueId v : plan_.steps[s].outputs)
        if (plan_.program.at(v).kind == ValueKind::kMetrics) loss_ = s;
  }

  void keep_own_steps() {
    std::vector<PlanStep> kept;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!runs_on_[s].contains(task_)) continue;
      if (s <= loss_) stage_.forward_steps = static_cast<int>(kept.size()) + 1;
      if (s == loss_) stage_.has_loss = true;
      kept.push_back(std::move(plan_.steps[s]));
    }
    plan_.steps = std::move(kept);
  }

  void find_exports() {
    std::map<ValueId, int> made;  // the last step that writes it
    for (size_t s = 0; s < plan_.steps.size(); ++s)
      for (ValueId v : plan_.steps[s].outputs) made[plan_.program.root(v)] = static_cast<int>(s);
    for (const auto& [root, after] : made) {
      const auto maker = maker_.find(root);
      if (!is_made(root) || maker == maker_.end()) continue;
      Stage::Export out{root, {}, plan_.descs[index(root)].bytes(), after};
      for (int reader : readers_[index(root)])
        if (reader != task_) out.to.push_back(reader);
      if (!out.to.empty()) stage_.exports.push_back(std::move(out));
    }
    std::ranges::stable_sort(stage_.exports, {}, &Stage::Export::after);
  }

  void find_segments() {
    std::map<ValueId, size_t> made;  // by steps of this task so far
    std::vector<std::vector<ValueId>> imports{{}};
    std::set<ValueId> known;
    bool works = false;  // the segment does more than keep parameters in other layouts
    stage_.segments.emplace_back();
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      std::vector<ValueId> fresh;
      for (ValueId v : step.inputs) {
        const ValueId root = plan_.program.root(v);
        const ValueKind kind = plan_.program.at(root).kind;
        stage_.reads_sample |= kind == ValueKind::kSample;
        stage_.reads_labels |= kind == ValueKind::kLabels;
        if (is_made(root) && !made.contains(root) && known.insert(root).second) fresh.push_back(root);
      }
      if (!fresh.empty() && works) {
        stage_.segments.push_back({static_cast<int>(s), static_cast<int>(s), {}});
        imports.emplace_back();
        works = false;
      }
      imports.back().insert(imports.back().end(), fresh.begin(), fresh.end());
      works = works || step.copy < 0;
      for (ValueId v : step.outputs) made[plan_.program.root(v)] = s;
      stage_.segments.back().last = static_cast<int>(s) + 1;
    }
    for (ValueId v : known) {
      const auto maker = maker_.find(v);
      DTRAIN_CHECK(maker != maker_.end() && maker->second != task_, "nobody makes value {}", v);
      stage_.imports.push_back({v, maker->second, plan_.descs[index(v)].bytes()});
    }
    for (size_t i = 0; i < imports.size(); ++i)
      for (ValueId v : imports[i])
        stage_.segments[i].imports.push_back(static_cast<int>(
            std::ranges::lower_bound(stage_.imports, v, {}, &Stage::Import::value) - stage_.imports.begin()));
  }

  Plan& plan_;
  const Split* split_;
  const int task_;
  Stage stage_;
  std::vector<Tasks> runs_on_;    // by step
  std::vector<Tasks> readers_;    // by value, of roots
  std::map<ValueId, int> maker_;  // the task that makes a value, but for what is repeated
  size_t loss_ = 0;
};

}  // namespace

Stage cut_stage(Plan& plan, const Split* split, int task) { return Cutter(plan, split, task).run(); }

}  // namespace dtrain::graph
