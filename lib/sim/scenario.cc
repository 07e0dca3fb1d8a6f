#include "sim/scenario.h"

#include <fmt/format.h>

#include "sim/draw.h"

namespace dtrain::sim {
namespace {

// By now every task has come, so that one that is lost for good is not waited for.
constexpr Instant kGathered = 60 * kMillisecond;

}  // namespace

const std::vector<SabotageName> kSabotages = {
    {Sabotage::kLostMetrics, "lost metrics"},         {Sabotage::kWrongMicroBatch, "wrong micro-batch"},
    {Sabotage::kCountedTwice, "counted twice"},       {Sabotage::kFlatSum, "flat sum"},
    {Sabotage::kStaleParameters, "stale parameters"}, {Sabotage::kOverwritten, "overwritten parameters"},
    {Sabotage::kHalfBlock, "half a block"},           {Sabotage::kOtherFactor, "another factor"},
    {Sabotage::kOtherRate, "another rate"},           {Sabotage::kLateSnapshot, "late snapshot"},
    {Sabotage::kSilentLoss, "silent loss"},           {Sabotage::kLostAssignment, "lost assignment"},
};

namespace {

// Workers that come while the run goes on, and some of which leave, die or freeze. Draws of its own, so that all else
// is what it would be without.
void add_joiners(Scenario& s, Nanoseconds length) {
  Draw draw(s.seed, "joiners");
  if (!draw.percent(40)) return;
  const uint32_t first = s.tasks();
  const int64_t count = draw.between(1, 3), most = (kGathered + length) / kMicrosecond;
  for (int64_t i = 0; i < count; ++i) s.joiners.push_back(draw.between(0, most) * kMicrosecond);
  for (uint32_t rank = first; rank < s.tasks(); ++rank) {
    if (!draw.percent(60)) continue;
    const Fault::Kind kinds[] = {Fault::Kind::kLeave, Fault::Kind::kLeave, Fault::Kind::kKill, Fault::Kind::kFreeze};
    Fault fault{kinds[draw.below(4)], rank, s.joiners[rank - first] + draw.between(0, most / 2) * kMicrosecond, {}};
    if (fault.kind == Fault::Kind::kFreeze || draw.percent(50))
      fault.back_after = draw.between(1, draw.percent(70) ? 20'000 : 400'000) * kMicrosecond;
    s.faults.push_back(fault);
  }
}

}  // namespace

Scenario random_scenario(uint64_t seed) {
  Draw draw(seed, "scenario");
  Scenario s;
  s.seed = seed;

  // Small blocks are pushed, larger ones offered; some have several chunks, a few several blocks.
  s.parameters.push_back({"first", {draw.between(1, 200)}, ParameterKind::kTrainable});
  const int64_t extra = draw.between(0, 3);
  for (int64_t i = 0; i < extra; ++i) {
    s.parameters.push_back({fmt::format("p{}", i),
                            {draw.between(1, 50)},
                            draw.percent(25)   ? ParameterKind::kStatistic
                            : draw.percent(20) ? ParameterKind::kFrozen
                                               : ParameterKind::kTrainable});
  }
  if (draw.percent(60)) s.parameters.push_back({"offered", {draw.between(16'380, 17'000)}, ParameterKind::kTrainable});
  if (draw.percent(25)) s.parameters.push_back({"chunks", {draw.between(65'530, 70'000)}, ParameterKind::kTrainable});
  for (ParameterInfo& p : s.parameters)
    if (draw.percent(20)) p.rate_multiplier = 0.5f;
  if (draw.percent(15)) s.parameters.push_back({"still", {draw.between(40'000, 140'000)}, ParameterKind::kFrozen});
  if (draw.percent(4)) s.parameters.push_back({"blocks", {draw.between(262'140, 280'000)}, ParameterKind::kTrainable});

  s.steps = draw.between(1, 8);
  s.micro_batches = static_cast<uint32_t>(draw.between(1, 6));
  if (draw.percent(60)) s.eval_micro_batches = static_cast<uint32_t>(draw.between(1, 5));
  if (s.eval_micro_batches > 0) s.eval_every = draw.between(0, 3);
  s.checkpoint_every = draw.between(0, 3);
  if (draw.percent(50)) s.clip_norm = draw.percent(80) ? 0.05 : 1e6;
  if (draw.percent(20)) s.norm_need = optim::NormNeed::kGradient;
  if (draw.percent(20)) s.norm_need = optim::NormNeed::kDirection;

  s.workers = static_cast<uint32_t>(draw.between(1, 4));
  s.servers = static_cast<uint32_t>(draw.between(1, 3));
  s.beside = draw.percent(35);
  if (s.beside && s.servers > s.workers) s.workers = s.servers;

  s.delay_most = draw.between(20, 4'000) * kMicrosecond;
  s.compute_most = draw.between(1, 20) * kMillisecond;
  s.speculate_percent = draw.percent(30) ? 40 : 0;

  std::vector<uint32_t> mortal;
  for (uint32_t rank = s.servers; rank < s.tasks(); ++rank) mortal.push_back(rank);
  // About as long as the run may take.
  const Nanoseconds length =
      s.steps * (s.micro_batches / s.workers * s.compute_most + 3 * s.compute_most + 6 * s.delay_most) + kMillisecond;
  const int64_t faults = mortal.empty() ? 0 : draw.between(0, 6);
  for (int64_t i = 0; i < faults; ++i) {
    Fault fault;
    fault.kind = draw.percent(75) ? Fault::Kind::kKill : Fault::Kind::kFreeze;
    fault.rank = mortal[draw.below(static_cast<uint32_t>(mortal.size()))];
    fault.at = kGathered + draw.between(0, length / kMicrosecond) * kMicrosecond;
    // The last one comes back always: somebody must finish.
    if (fault.kind == Fault::Kind::kFreeze || fault.rank == mortal.back() || draw.percent(70)) {
      fault.back_after = draw.between(1, draw.percent(70) ? 20'000 : 400'000) * kMicrosecond;
    }
    s.faults.push_back(fault);
  }
  if (draw.percent(8)) s.interrupt_at = draw.between(0, (kGathered + length) / kMicrosecond) * kMicrosecond;
  if (s.servers > 1 && draw.percent(6)) {
    const auto rank = static_cast<uint32_t>(draw.between(1, s.servers - 1));
    const Instant at = kGathered + draw.between(0, length / kMicrosecond) * kMicrosecond;
    s.server_kill = Fault{Fault::Kind::kKill, rank, at, {}};
  }
  add_joiners(s, length);
  return s;
}

std::string describe(const Scenario& s) {
  std::string out = fmt::format(
      "seed {}: {} parameters, {} steps, K {}, K_eval {}, eval every {}, checkpoint every {}, {}, {} servers{} {} "
      "workers, {} faults",
      s.seed, s.parameters.size(), s.steps, s.micro_batches, s.eval_micro_batches, s.eval_every, s.checkpoint_every,
      fmt::format("{}{}", s.clip_norm ? fmt::format("clip {}", *s.clip_norm) : "no clipping",
                  s.norm_need == optim::NormNeed::kNone       ? ""
                  : s.norm_need == optim::NormNeed::kGradient ? ", ratios by gradient"
                                                              : ", ratios by direction"),
      s.servers, s.beside ? " beside" : ",", s.workers, s.faults.size());
  if (!s.joiners.empty()) out += fmt::format(", {} join", s.joiners.size());
  if (s.interrupt_at) out += ", interrupted";
  if (s.server_kill) out += ", a server killed";
  return out;
}

}  // namespace dtrain::sim
