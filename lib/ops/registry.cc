#include "ops/registry.h"

#include <algorithm>
#include <tuple>

#include "base/nearest.h"

namespace dtrain::ops {

OpRegistry& OpRegistry::instance() {
  static OpRegistry registry;
  return registry;
}

void OpRegistry::add(std::string backend, std::string op, std::unique_ptr<Op> implementation) {
  DTRAIN_CHECK(find(backend, op) == nullptr, "{} of backend {} registered twice", op, backend);
  Entry entry{std::move(backend), std::move(op), std::move(implementation)};
  auto at = std::upper_bound(entries_.begin(), entries_.end(), entry, [](const Entry& a, const Entry& b) {
    return std::tie(a.backend, a.op) < std::tie(b.backend, b.op);
  });
  entries_.insert(at, std::move(entry));
}

const Op* OpRegistry::find(const std::string& backend, const std::string& op) const {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), std::tie(backend, op),
                             [](const Entry& e, const auto& key) { return std::tie(e.backend, e.op) < key; });
  return at != entries_.end() && at->backend == backend && at->op == op ? at->implementation.get() : nullptr;
}

std::vector<std::string> OpRegistry::backends() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_)
    if (names.empty() || names.back() != e.backend) names.push_back(e.backend);
  return names;
}

std::vector<std::string> OpRegistry::ops(const std::string& backend) const {
  std::vector<std::string> names;
  for (const Entry& e : entries_)
    if (e.backend == backend) names.push_back(e.op);
  return names;
}

Result<std::unique_ptr<Kernel>> OpRegistry::plan(const std::string& backend, const OpRequest& request) const {
  const Op* op = find(backend, request.op);
  if (!op)
    return fail(ExitCode::kUsage, fmt::format("the {} backend has no op '{}'{}", backend, request.op,
                                              suggestion(request.op, ops(backend))));
  if (auto why = op->unsupported(request))
    return fail(ExitCode::kUsage, fmt::format("{} is not supported on {}: {}", request.op, backend, *why));
  return op->plan(request);
}

bool OpRegistry::supports(const std::string& backend, const OpRequest& request) const {
  const Op* op = find(backend, request.op);
  return op && !op->unsupported(request);
}

}  // namespace dtrain::ops
