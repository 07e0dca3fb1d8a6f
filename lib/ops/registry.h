// Which backend has which op. Backends fill it by static registration (one Registration a file); plug-ins through the
// same add(). Read-only after start-up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace dtrain::ops {

class OpRegistry {
 public:
  static OpRegistry& instance();

  void add(std::string backend, std::string op, std::unique_ptr<Op> implementation);
  // nullptr where the backend does not have it.
  const Op* find(const std::string& backend, const std::string& op) const;
  std::vector<std::string> backends() const;                       // sorted
  std::vector<std::string> ops(const std::string& backend) const;  // sorted

  // Plans `request` on `backend`; an error names the op, the backend and why.
  Result<std::unique_ptr<Kernel>> plan(const std::string& backend, const OpRequest& request) const;
  // True where the backend has the op and supports this request: lets layers ask for a fused form first.
  bool supports(const std::string& backend, const OpRequest& request) const;

 private:
  struct Entry {
    std::string backend, op;
    std::unique_ptr<Op> implementation;
  };
  std::vector<Entry> entries_;  // sorted by (backend, op)
};

// static const Registration r("cpu", "conv2d", std::make_unique<Conv2dForward>());
struct Registration {
  Registration(std::string backend, std::string op, std::unique_ptr<Op> implementation) {
    OpRegistry::instance().add(std::move(backend), std::move(op), std::move(implementation));
  }
};

}  // namespace dtrain::ops
