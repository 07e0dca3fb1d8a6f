#include "graph/emitter.h"

#include <algorithm>

#include "ops/registry.h"
#include "tensor/metrics.h"

namespace dtrain::graph {
namespace {

ops::TensorDesc plain(const Value& value) { return {value.shape, value.dtype, nullptr}; }

}  // namespace

ValueId Emitter::parameter_out(int i) {
  const ParameterIndex leaves_as = setting_.parameter_outs[static_cast<size_t>(i)];
  Value value{.shape = shape(parameter(i))};
  if (leaves_as != kNoParameter) value.kind = ValueKind::kParameterOut;
  value.parameter = leaves_as;
  return parameter_gradients_[static_cast<size_t>(i)] = setting_.program->add(std::move(value));
}

std::vector<Emitter::Piece> Emitter::parameter_pieces(int i) {
  constexpr int64_t kBlock = kChunkElements * kBlockChunks, kFewestRows = 8;  // of a piece
  const ValueId whole = parameter_out(i);
  const Value value = setting_.program->at(whole);
  const int64_t elements = value.shape.elements();
  const int64_t row = elements / value.shape[0];
  // Rows on cuts are computed twice: of long ones that would be more work than pieces save.
  if (elements <= kBlock || row > kBlock / kFewestRows || value.kind != ValueKind::kParameterOut) return {{0, whole}};
  std::vector<Piece> pieces;
  for (int64_t first = 0; first < elements; first += kBlock) {
    Value piece = value;
    piece.first = first;
    piece.count = std::min(kBlock, elements - first);
    const int64_t begin = first / row, end = (first + piece.count + row - 1) / row;
    piece.skip = first - begin * row;
    piece.shape[0] = end - begin;
    pieces.push_back({begin, setting_.program->add(std::move(piece))});
  }
  return pieces;
}

ValueId Emitter::value(Shape shape, DType dtype) {
  return setting_.program->add({.shape = std::move(shape), .dtype = dtype});
}

ValueId Emitter::workspace() { return setting_.program->add({.shape = {0}, .dtype = DType::kU8, .opaque = true}); }

ValueId Emitter::view(ValueId of, Shape shape) {
  const Value& base = setting_.program->at(of);
  DTRAIN_CHECK(base.shape.elements() == shape.elements(), "a view of another size");
  return setting_.program->add({.shape = std::move(shape), .dtype = base.dtype, .view_of = of});
}

ValueId Emitter::metrics() {
  return setting_.program->add({.shape = {Metrics::kNumbers}, .dtype = DType::kF64, .kind = ValueKind::kMetrics});
}

void Emitter::op(std::string name, std::any attributes, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  setting_.program->nodes.push_back(
      {std::move(name), std::move(attributes), std::move(inputs), std::move(outputs), setting_.layer});
}

ValueId Emitter::new_gradient(int input) {
  const ValueId gradient = value(shape(this->input(input)));
  give_gradient(input, gradient);
  return gradient;
}

bool Emitter::can_fuse(const std::string& op, std::any attributes, const std::vector<ValueId>& inputs,
                       const std::vector<ValueId>& outputs) const {
  const ops::ActivationKind kind = setting_.activation.kind;
  if (kind == ops::ActivationKind::kNone) return false;
  if (training() && !ops::backward_uses_output(kind)) return false;
  ops::OpRequest request{op, std::move(attributes), {}, {}};
  for (ValueId v : inputs) request.inputs.push_back(plain(setting_.program->at(v)));
  for (ValueId v : outputs) request.outputs.push_back(plain(setting_.program->at(v)));
  return ops::OpRegistry::instance().supports(setting_.backend, request);
}

}  // namespace dtrain::graph
