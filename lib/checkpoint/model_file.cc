#include "checkpoint/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

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

using Sink = std::function<Status(ByteSpan)>;

// A tensor that a checkpoint holds, and how to hand it over in pieces.
struct Content {
  TensorDeclaration tensor;
  std::function<Status(const Sink&)> stream;
};

// A parameter's values or slot.
Content whole(const LogicalReader& checkpoint, const ManifestParameter& p, const std::string& slot, std::string name) {
  const auto stream = [&checkpoint, &p, slot](const Sink& sink) -> Status {
    Buffer piece(kPiece);
    const uint64_t bytes = *bytes_of(p.dtype, p.shape);
    for (uint64_t at = 0; at < bytes; at += kPiece) {
      const MutableByteSpan part(piece.data(), std::min<uint64_t>(kPiece, bytes - at));
      DTRAIN_TRY(checkpoint.read(p.name, slot, static_cast<int64_t>(at / size_of(p.dtype)), part));
      DTRAIN_TRY(sink(ByteSpan(part)));
    }
    return {};
  };
  return {{std::move(name), p.dtype, p.shape}, stream};
}

// Calls f(first, count) for parts of a list of so many rows.
template <typename F>
Status for_rows(int64_t rows, int64_t width, const F& f) {
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kPiece / sizeof(float)) / width);
  for (int64_t first = 0; first < rows; first += step) DTRAIN_TRY(f(first, std::min(step, rows - first)));
  return {};
}

Content row_numbers(const LogicalReader& checkpoint, const ManifestParameter& p, std::string name) {
  const int64_t rows = checkpoint.rows(p.name);
  const auto stream = [&checkpoint, &p, rows](const Sink& sink) {
    std::vector<int64_t> part;
    return for_rows(rows, 2, [&](int64_t first, int64_t count) {
      part.resize(static_cast<size_t>(count));
      checkpoint.read_rows(p.name, first, part);
      return sink(std::as_bytes(std::span(part)));
    });
  };
  return {{std::move(name), DType::kI64, Shape{rows}}, stream};
}

Content row_values(const LogicalReader& checkpoint, const ManifestParameter& p, const std::string& slot,
                   std::string name) {
  const int64_t rows = checkpoint.rows(p.name), width = p.shape[1];
  const auto stream = [&checkpoint, &p, slot, rows, width](const Sink& sink) {
    std::vector<float> part;
    return for_rows(rows, width, [&](int64_t first, int64_t count) -> Status {
      part.resize(static_cast<size_t>(count * width));
      DTRAIN_TRY(checkpoint.read_row_values(p.name, slot, first, part));
      return sink(std::as_bytes(std::span(part)));
    });
  };
  return {{std::move(name), DType::kF32, Shape{rows, width}}, stream};
}

// What the manifest lists, with this slot of what is trained in place of the values, under names with a prefix.
void add_contents(std::vector<Content>& contents, const LogicalReader& checkpoint, const std::string& prefix,
                  const std::string& slot) {
  for (const ManifestParameter& p : checkpoint.manifest().parameters) {
    if (p.kind != ParameterKind::kSparse) {
      contents.push_back(whole(checkpoint, p, p.kind == ParameterKind::kParameter ? slot : "", prefix + p.name));
      continue;
    }
    contents.push_back(row_numbers(checkpoint, p, prefix + p.name + ".rows"));
    contents.push_back(row_values(checkpoint, p, slot, prefix + p.name + ".values"));
  }
}

void sort_by_name(std::vector<Content>& contents) {
  std::sort(contents.begin(), contents.end(),
            [](const Content& a, const Content& b) { return a.tensor.name < b.tensor.name; });
}

Status add_to(ContentHash& hash, std::vector<Content> contents) {
  sort_by_name(contents);
  for (const Content& c : contents) {
    hash.begin(c.tensor.name, c.tensor.dtype, c.tensor.shape);
    DTRAIN_TRY(c.stream([&](ByteSpan part) {
      hash.update(part);
      return Status();
    }));
  }
  return {};
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
  std::vector<Content> contents;
  add_contents(contents, checkpoint, "", std::string(slot));
  sort_by_name(contents);
  std::vector<TensorDeclaration> declared;
  for (const Content& c : contents) declared.push_back(c.tensor);
  Metadata metadata = model_metadata();
  metadata.insert(checkpoint.manifest().metadata.begin(), checkpoint.manifest().metadata.end());
  DTRAIN_TRY_ASSIGN(auto writer, SafetensorsWriter::create(files, path, std::move(declared), metadata));
  for (const Content& c : contents)
    DTRAIN_TRY(c.stream([&](ByteSpan part) { return writer.write(c.tensor.name, part); }));
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
  std::vector<Content> contents;
  add_contents(contents, checkpoint, "", "");
  DTRAIN_TRY(add_to(hash, std::move(contents)));
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
  // The prefixes keep names of parameters, slots and the step apart, and rise: model < slot < step.
  std::vector<Content> contents;
  add_contents(contents, checkpoint, "model/", "");
  // A slot's name ends at its length, so that "a/b" + "c" and "a" + "b/c" differ.
  for (const std::string& slot : manifest.slots) {
    const std::string prefix = fmt::format("slot/{:08}{}/", slot.size(), slot);
    for (const ManifestParameter& p : manifest.parameters) {
      if (p.kind == ParameterKind::kParameter) contents.push_back(whole(checkpoint, p, slot, prefix + p.name));
      if (p.kind == ParameterKind::kSparse)
        contents.push_back(row_values(checkpoint, p, slot, prefix + p.name + ".values"));
    }
  }
  DTRAIN_TRY(add_to(hash, std::move(contents)));
  hash.begin("step", DType::kI64, Shape{});
  std::byte step[8];
  store_le<int64_t>(step, manifest.step);
  hash.update(step);
  return hash.finish();
}

}  // namespace dtrain::checkpoint
