#include "model_source.h"

#include <fmt/format.h>

#include <memory>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/logical_reader.h"
#include "checkpoint/model_file.h"
#include "model_path.h"

namespace dtrain::cmd {
namespace {

node::ParameterSource source_of(std::shared_ptr<const checkpoint::LogicalReader> reader) {
  return [reader = std::move(reader)](const ParameterInfo& p, std::span<float> into) {
    const checkpoint::ManifestParameter* there = reader->manifest().find(p.name);
    if (!there || there->shape != p.shape)
      return Status(
          fail(ExitCode::kUsage,
               fmt::format("{}: the network wants {} of shape {}, but the checkpoint {}", reader->folder(), p.name,
                           to_string(p.shape), there ? "has it as " + to_string(there->shape) : "does not have it")));
    return reader->read(p.name, "", 0, std::as_writable_bytes(into));
  };
}

// With what it reads from.
template <typename Reader>
std::shared_ptr<const node::RowSource> rows_of(std::shared_ptr<Reader> reader) {
  std::shared_ptr<const node::RowSource> rows = node::RowSource::of(*reader);
  const node::RowSource* const pointer = rows.get();
  auto both = std::make_shared<std::pair<std::shared_ptr<Reader>, std::shared_ptr<const node::RowSource>>>(
      std::move(reader), std::move(rows));
  return {std::move(both), pointer};
}

}  // namespace

Result<Model> open_model(FileSystem& files, const std::string& path) {
  DTRAIN_TRY_ASSIGN(const ModelPath model, find_model(files, path));
  const auto learnt_of = [&](const checkpoint::Metadata& metadata) -> Result<node::Learnt> {
    Result<node::Learnt> learnt = node::Learnt::from(metadata);
    if (!learnt) return fail(learnt.error().code, fmt::format("'{}': {}", model.path, learnt.error().message));
    return learnt;
  };
  if (model.checkpoint) {
    DTRAIN_TRY_ASSIGN(auto opened, checkpoint::LogicalReader::open(files, model.path));
    DTRAIN_TRY(checkpoint::verify_files(files, model.path, opened.manifest()));
    DTRAIN_TRY_ASSIGN(auto learnt, learnt_of(opened.manifest().metadata));
    const auto reader = std::make_shared<checkpoint::LogicalReader>(std::move(opened));
    return Model{source_of(reader), rows_of(reader), std::move(learnt)};
  }
  DTRAIN_TRY_ASSIGN(auto opened, checkpoint::SafetensorsReader::open(files, model.path));
  DTRAIN_TRY_ASSIGN(auto learnt, learnt_of(opened.metadata()));
  const auto reader = std::make_shared<checkpoint::SafetensorsReader>(std::move(opened));
  return Model{[reader](const ParameterInfo& p, std::span<float> into) {
                 return checkpoint::read_model_tensor(*reader, p.name, DType::kF32, p.shape,
                                                      std::as_writable_bytes(into));
               },
               rows_of(reader), std::move(learnt)};
}

}  // namespace dtrain::cmd
