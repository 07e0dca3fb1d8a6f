// What the oneDNN kernels of the cpu backend share: the process's engine and stream, layouts over memory descriptors,
// and the kernel that runs one primitive on memory objects made when it was planned.
//
// Internal to this folder. oneDNN's exceptions end in guarded(). The engine and the stream hold no state of a run and
// may be used by several threads at once; a kernel is run by one thread at a time and must be planned under the same
// number of OpenMP threads as it runs.
#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/activation.h"
#include "ops/op.h"

namespace dtrain::ops::cpu {

const dnnl::engine& engine();
dnnl::stream& stream();

// A layout that is not row-major. Its dimensions may differ from the tensor's where the row-major order of both is the
// same (grouped weights [O,C/g,kh,kw] are {g,O/g,C/g,kh,kw} to oneDNN).
class OnednnLayout final : public Layout {
 public:
  explicit OnednnLayout(const dnnl::memory::desc& desc) : desc_(desc) {}
  size_t bytes() const override { return desc_.get_size(); }
  // Whether elements lie alike: strides along extents of 1 say nothing.
  bool equals(const Layout& other) const override;
  std::string describe() const override;  // oneDNN's tag: "aBcd16b", "acdb"
  const dnnl::memory::desc& desc() const { return desc_; }

 private:
  dnnl::memory::desc desc_;
};

// A workspace that a forward kernel hands to its backward: bytes of oneDNN's own, and how the forward's input lay.
class WorkspaceLayout final : public Layout {
 public:
  WorkspaceLayout(const dnnl::memory::desc& workspace, const dnnl::memory::desc& input);
  size_t bytes() const override { return bytes_; }
  bool equals(const Layout& other) const override;
  std::string describe() const override { return "workspace for " + input_.describe(); }
  const dnnl::memory::desc& input() const { return input_.desc(); }

 private:
  size_t bytes_;
  OnednnLayout input_;
};
TensorDesc workspace_desc(const dnnl::memory::desc& workspace, const dnnl::memory::desc& input);

dnnl::memory::dims dims_of(const Shape& shape);
dnnl::memory::data_type onednn_type(DType type);
// Row-major.
dnnl::memory::desc plain(const dnnl::memory::dims& dims, DType type = DType::kF32);
// To be chosen by the primitive.
dnnl::memory::desc any(const dnnl::memory::dims& dims, DType type = DType::kF32);
// The desc of a value as it lies at present, seen with `dims`; row-major where its layout has others.
dnnl::memory::desc present(const TensorDesc& value, const dnnl::memory::dims& dims);
inline dnnl::memory::desc present(const TensorDesc& value) { return present(value, dims_of(value.shape)); }
// nullptr where `desc` is dense and row-major.
LayoutPtr layout_of(const dnnl::memory::desc& desc);

// Attributes of all primitives: the scratchpad is the caller's, so that running allocates nothing of size. With an
// activation as post-op where it is not kNone.
dnnl::primitive_attr attributes(const Activation& fused = {});
// oneDNN's algorithm for an activation; `backward` takes the form that the backward op's `saved` calls for.
dnnl::algorithm algorithm_of(ActivationKind kind, bool backward);
float alpha_of(const Activation& activation);
float beta_of(const Activation& activation);

enum class From { kInput, kOutput, kScratch };

// An argument of a primitive and where its data come from.
struct Argument {
  int arg;  // DNNL_ARG_…
  dnnl::memory::desc desc;
  From from;
  size_t at;          // which input or output; the byte in the kernel's own scratch
  bool view = false;  // the desc is another view of a row-major value (a transposed matrix): says nothing of its layout
  size_t offset = 0;  // the byte of the value with which the view begins
};

// What a kernel is made of. input_layouts and outputs follow from the arguments unless set.
struct Plan {
  dnnl::primitive_desc_base primitive = {};
  std::vector<Argument> arguments = {};
  std::vector<std::pair<size_t, TensorDesc>> workspaces = {};  // outputs whose size the kernel sets
  std::vector<std::pair<int, int>> in_place = {};
  size_t own_scratch = 0;  // bytes for arguments From::kScratch
  double flops = 0;
};

class PrimitiveKernel : public Kernel {
 public:
  PrimitiveKernel(const Plan& plan, const OpRequest& request);
  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch,
           const RunContext& context) override;
  std::string implementation() const override { return implementation_; }

 private:
  struct Slot {
    dnnl::memory memory;
    From from;
    size_t at, offset;
    void* current;  // oneDNN clears padding whenever it is given a pointer: only changes are told
  };
  dnnl::primitive primitive_;
  std::string implementation_;
  std::vector<Slot> slots_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// An op whose kernels are one primitive. Supported is what oneDNN has a primitive for.
class OnednnOp : public Op {
 public:
  std::optional<std::string> unsupported(const OpRequest& request) const override;
  Result<std::unique_ptr<Kernel>> plan(const OpRequest& request) const override;

 protected:
  // May throw dnnl::error. A string says for a person why not.
  virtual tl::expected<Plan, std::string> describe(const OpRequest& request) const = 0;
  virtual std::unique_ptr<Kernel> make(const Plan& plan, const OpRequest& request) const {
    return std::make_unique<PrimitiveKernel>(plan, request);
  }

 private:
  tl::expected<Plan, std::string> guarded(const OpRequest& request) const;
};

// 0: made for these shapes; 1: through a matrix product; 2: plain loops.
int slowness(const dnnl::primitive_desc_base& primitive);

}  // namespace dtrain::ops::cpu
