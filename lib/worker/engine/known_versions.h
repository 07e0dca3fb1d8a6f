// Which version of each parameter the executables of an engine know: what they have made of another one (copies in
// other layouts) is void. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/executable.h"
#include "tensor/parameter.h"

namespace dtrain::worker {

class KnownVersions {
 public:
  // `eval` may be null. All that is referred to outlives this object.
  KnownVersions(std::span<const ParameterInfo> parameters, graph::Executable* train, graph::Executable* eval)
      : parameters_(parameters), train_(train), eval_(eval), known_(parameters.size(), -1) {}

  // The parameter's memory holds this version now. A frozen one has always the same.
  void note(ParameterIndex p, int64_t version) {
    int64_t& known = known_[static_cast<size_t>(p)];
    if (parameters_[static_cast<size_t>(p)].kind == ParameterKind::kFrozen) version = 0;
    if (known == version) return;
    known = version;
    train_->parameter_changed(p);
    if (eval_) eval_->parameter_changed(p);
  }
  // All parameter memory has other values, whatever version is noted next.
  void forget() { known_.assign(known_.size(), -1); }

 private:
  std::span<const ParameterInfo> parameters_;
  graph::Executable *const train_, *const eval_;
  std::vector<int64_t> known_;
};

}  // namespace dtrain::worker
