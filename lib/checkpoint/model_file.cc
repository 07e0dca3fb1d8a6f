#include "checkpoint/model_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/nearest.h"
#include "checkpoint/content_hash.h"
#include "tensor/buffer.h"

namespace dtrain::checkpoint {
namespace {

constexpr size_t kPiece = 1u << 20;  // a multiple of every type's size

// Hugging Face's loaders ask for this key.
const Metadata& model_metadata() {
  static const Metadata kMetadata = {{"format", "pt"}};
  return kMetadata;
}

// Hands a parameter's values or slot to `sink` in pieces.
template <typename Sink>
Status stream(const LogicalReader& checkpoint, const ManifestParameter& parameter, std::string_view slot, Buffer& piece,
              const Sink& sink) {
  const uint64_t bytes = *bytes_of(parameter.dtype, parameter.shape);
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    const MutableByteSpan part(piece.data(), std::min<uint64_t>(kPiece, bytes - at));
    DTRAIN_TRY(checkpoint.read(parameter.name, slot, static_cast<int64_t>(at / size_of(parameter.dtype)), part));
    DTRAIN_TRY(sink(ByteSpan(part)));
  }
  return {};
}

Status hash_tensor(ContentHash& hash, const LogicalReader& checkpoint, const ManifestParameter& p,
                   const std::string& name, std::string_view slot, Buffer& piece) {
  hash.begin(name, p.dtype, p.shape);
  return stream(checkpoint, p, slot, piece, [&](ByteSpan part) {
    hash.update(part);
    return Status();
  });
}

std::vector<const ModelTensor*> by_name(std::span<const ModelTensor> tensors) {
  std::vector<const ModelTensor*> sorted;
  for (const ModelTensor& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const ModelTensor* a, const ModelTensor* b) { return a->name < b->name; });
  return sorted;
}

}  // namespace

Status write_model(FileSystem& files, const std::string& path, std::span<const ModelTensor> tensors) {
  std::vector<TensorDeclaration> declared;
  for (const ModelTensor& t : tensors) declared.push_back({t.name, t.dtype, t.shape});
  DTRAIN_TRY_ASSIGN(auto writer, SafetensorsWriter::create(files, path, std::move(declared), model_metadata()));
  for (const ModelTensor* t : by_name(tensors)) DTRAIN_TRY(writer.write(t->name, t->bytes));
  DTRAIN_TRY(writer.finish());
  return {};
}

Status write_model(FileSystem& files, const std::string& path, const LogicalReader& checkpoint, std::string_view slot) {
  std::vector<TensorDeclaration> declared;
  for (const ManifestParameter& p : checkpoint.manifest().parameters) declared.push_back({p.name, p.dtype, p.shape});
  Metadata metadata = model_metadata();
  metadata.insert(checkpoint.manifest().metadata.begin(), checkpoint.manifest().metadata.end());
  DTRAIN_TRY_ASSIGN(auto writer, SafetensorsWriter::create(files, path, std::move(declared), metadata));
  Buffer piece(kPiece);
  for (const ManifestParameter& p : checkpoint.manifest().parameters)
    DTRAIN_TRY(stream(checkpoint, p, p.kind == ParameterKind::kParameter ? slot : "", piece,
                      [&](ByteSpan part) { return writer.write(p.name, part); }));
  DTRAIN_TRY(writer.finish());
  return {};
}

Status read_model_tensor(const SafetensorsReader& model, std::string_view name, DType dtype, const Shape& shape,
                         MutableByteSpan into) {
  const TensorInfo* tensor = model.find(name);
  if (!tensor) {
    std::vector<std::string> names;
    for (const TensorInfo& t : model.tensors()) names.push_back(t.name);
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' holds no tensor '{}'{}", model.path(), name, suggestion(name, names)));
  }
  if (tensor->dtype != dtype || tensor->shape != shape)
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}': '{}' is {} {}, the network has {} {}", model.path(), name, name_of(tensor->dtype),
                            to_string(tensor->shape), name_of(dtype), to_string(shape)));
  DTRAIN_CHECK(into.size() == tensor->bytes, "'{}'", name);
  return model.read(*tensor, 0, into);
}

Result<Digest> model_hash(const SafetensorsReader& model) {
  ContentHash hash;
  Buffer piece(kPiece);
  for (const TensorInfo& t : model.tensors()) {
    hash.begin(t.name, t.dtype, t.shape);
    for (uint64_t at = 0; at < t.bytes; at += kPiece) {
      const MutableByteSpan part(piece.data(), std::min<uint64_t>(kPiece, t.bytes - at));
      DTRAIN_TRY(model.read(t, at, part));
      hash.update(part);
    }
  }
  return hash.finish();
}

Result<Digest> model_hash(const LogicalReader& checkpoint) {
  ContentHash hash;
  Buffer piece(kPiece);
  for (const ManifestParameter& p : checkpoint.manifest().parameters)
    DTRAIN_TRY(hash_tensor(hash, checkpoint, p, p.name, "", piece));
  return hash.finish();
}

Digest model_hash(std::span<const ModelTensor> tensors) {
  ContentHash hash;
  for (const ModelTensor* t : by_name(tensors)) {
    hash.begin(t->name, t->dtype, t->shape);
    hash.update(t->bytes);
  }
  return hash.finish();
}

Result<Digest> state_hash(const LogicalReader& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  ContentHash hash;
  Buffer piece(kPiece);
  // The prefixes keep names of parameters, slots and the step apart, and rise: model < slot < step.
  for (const ManifestParameter& p : manifest.parameters)
    DTRAIN_TRY(hash_tensor(hash, checkpoint, p, "model/" + p.name, "", piece));
  // A slot's name ends at its length, so that "a/b" + "c" and "a" + "b/c" differ.
  std::vector<std::pair<std::string, std::string>> prefixes;
  for (const std::string& slot : manifest.slots)
    prefixes.emplace_back(fmt::format("slot/{:08}{}/", slot.size(), slot), slot);
  std::sort(prefixes.begin(), prefixes.end());
  for (const auto& [prefix, slot] : prefixes)
    for (const ManifestParameter& p : manifest.parameters)
      if (p.kind == ParameterKind::kParameter)
        DTRAIN_TRY(hash_tensor(hash, checkpoint, p, prefix + p.name, slot, piece));
  hash.begin("step", DType::kI64, Shape{});
  std::byte step[8];
  store_le<int64_t>(step, manifest.step);
  hash.update(step);
  return hash.finish();
}

}  // namespace dtrain::checkpoint
