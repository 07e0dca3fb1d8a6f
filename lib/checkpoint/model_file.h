// The model without the training: all parameters and running statistics as one safetensors file with PyTorch's names
// and shapes, a sparse table as the rows that are kept of it (`<name>.rows`, I64, ascending; `<name>.values`, [rows,
// width]), and the hashes that say whether two of them, or two checkpoints, are the same to the last bit.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/logical_reader.h"
#include "checkpoint/safetensors.h"

namespace dtrain::checkpoint {

// Borrows the bytes.
struct ModelTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  ByteSpan bytes;
};

Status write_model(FileSystem& files, const std::string& path, std::span<const ModelTensor> tensors);
// The model in a checkpoint, copied piece by piece. With `slot`: with this slot of what is trained in place of its
// values.
Status write_model(FileSystem& files, const std::string& path, const LogicalReader& checkpoint,
                   std::string_view slot = "");

// Fills `into` with the tensor `name` of a model file, which must have this type and shape.
Status read_model_tensor(const SafetensorsReader& model, std::string_view name, DType dtype, const Shape& shape,
                         MutableByteSpan into);

// The model's hash: names, types, shapes and bytes of parameters and running statistics (ContentHash). The same for a
// checkpoint and for the model file with the same content.
Result<Digest> model_hash(const SafetensorsReader& model);
Result<Digest> model_hash(const LogicalReader& checkpoint);
Digest model_hash(std::span<const ModelTensor> tensors);
// The state's: also the optimizer's slots and the step.
Result<Digest> state_hash(const LogicalReader& checkpoint);

}  // namespace dtrain::checkpoint
