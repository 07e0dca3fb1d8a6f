#include "sim/truth.h"

#include <cmath>
#include <functional>

namespace dtrain::sim {
namespace {

// Sum of leaf(k) for k in [first, last): the left part is the largest power of two below the size.
template <typename T>
T tree_sum(uint32_t first, uint32_t last, const std::function<T(uint32_t)>& leaf,
           const std::function<void(T&, const T&)>& add) {
  if (last - first == 1) return leaf(first);
  uint32_t left = 1;
  while (left * 2 < last - first) left *= 2;
  T sum = tree_sum<T>(first, first + left, leaf, add);
  add(sum, tree_sum<T>(first + left, last, leaf, add));
  return sum;
}

Metrics all_metrics(float c, wire::StepKind kind, int64_t step, uint32_t n) {
  return tree_sum<Metrics>(
      0, n, [&](uint32_t k) { return micro_metrics(c, kind, step, k); },
      [](Metrics& a, const Metrics& b) {
        a.loss += b.loss;
        a.samples += b.samples;
        a.correct += b.correct;
        a.among_top += b.among_top;
      });
}

// Chunks of 65,536 elements, within each 16 lanes that are added pairwise.
double squares(const std::vector<float>& values, double so_far) {
  for (size_t first = 0; first < values.size(); first += 65'536) {
    double lanes[16] = {};
    for (size_t i = first; i < values.size() && i < first + 65'536; ++i) {
      lanes[(i - first) % 16] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    for (int width = 8; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    }
    so_far += lanes[0];
  }
  return so_far;
}

}  // namespace

Truth find_truth(const Scenario& s) {
  Truth truth;
  truth.versions.push_back(initial_values(s.parameters));
  Values momentum = truth.versions[0];
  for (auto& slot : momentum) slot.assign(slot.size(), 0.0f);

  for (int64_t t = 0; t < s.steps; ++t) {
    Values now = truth.versions.back();
    const float c = probe(now);
    truth.steps.push_back(all_metrics(c, wire::StepKind::kTrain, t, s.micro_batches));

    Values roots;
    double sum = 0.0;
    for (size_t p = 0; p < s.parameters.size(); ++p) {
      roots.push_back(tree_sum<std::vector<float>>(
          0, s.micro_batches,
          [&](uint32_t k) {
            std::vector<float> leaf;
            micro_gradient(s.parameters, now, c, t, k, static_cast<ParameterIndex>(p), leaf);
            return leaf;
          },
          [](std::vector<float>& a, const std::vector<float>& b) {
            for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
          }));
      if (s.parameters[p].kind == ParameterKind::kTrainable) sum = squares(roots.back(), sum);
    }
    double factor = 1.0;
    truth.norms.emplace_back();
    if (s.clip_norm || s.norm_need == optim::NormNeed::kGradient) {
      const double norm = std::sqrt(sum) / s.micro_batches;
      truth.norms.back() = norm;
      if (s.clip_norm) factor = std::fmin(1.0, *s.clip_norm / (norm + 1e-6));
    }

    const auto scale = static_cast<float>(factor / s.micro_batches);
    for (size_t p = 0; p < s.parameters.size(); ++p) {
      if (s.parameters[p].kind == ParameterKind::kFrozen) continue;
      // The direction needs the moved momentum, the ratio the direction, the values the ratio.
      std::vector<float> direction(now[p].size());
      if (s.parameters[p].kind == ParameterKind::kTrainable) {
        for (size_t i = 0; i < direction.size(); ++i) {
          momentum[p][i] = kMomentum * momentum[p][i] + scale * roots[p][i];
          direction[i] = momentum[p][i];
          if (s.norm_need == optim::NormNeed::kDirection) direction[i] += kDecay * now[p][i];
        }
      }
      double ratio = 1.0;
      if (s.norm_need != optim::NormNeed::kNone) {
        const bool directed = s.norm_need == optim::NormNeed::kDirection;
        const double other = std::sqrt(squares(directed ? direction : roots[p], 0.0));
        ratio = ratio_of(std::sqrt(squares(now[p], 0.0)), directed ? other : other / s.micro_batches * factor);
      }
      const auto rate = static_cast<float>(learning_rate(t) * s.parameters[p].rate_multiplier * ratio);
      for (size_t i = 0; i < roots[p].size(); ++i) {
        if (s.parameters[p].kind == ParameterKind::kStatistic) {
          now[p][i] = roots[p][i] / static_cast<float>(s.micro_batches);
        } else {
          now[p][i] -= rate * direction[i];
        }
      }
    }
    truth.versions.push_back(std::move(now));

    const int64_t version = t + 1;
    const auto due = [&](int64_t every) { return version == s.steps || (every > 0 && version % every == 0); };
    if (s.eval_micro_batches > 0 && due(s.eval_every)) {
      truth.evals[version] =
          all_metrics(probe(truth.versions.back()), wire::StepKind::kEval, version, s.eval_micro_batches);
    }
    if (due(s.checkpoint_every)) truth.snapshots.push_back(version);
  }
  return truth;
}

}  // namespace dtrain::sim
