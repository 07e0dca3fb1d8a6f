// dtrain inspect: what a model file or a checkpoint holds, and its hashes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/file_system.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/model_file.h"
#include "commands.h"
#include "flags.h"
#include "model_path.h"

namespace dtrain::cmd {
namespace {

struct InspectFlags {
  std::string path;
  bool hash = false;
};

Status inspect_model(const FileSystem& files, const InspectFlags& flags) {
  DTRAIN_TRY_ASSIGN(const auto model, checkpoint::SafetensorsReader::open(files, flags.path));
  if (flags.hash) {
    DTRAIN_TRY_ASSIGN(const Digest digest, checkpoint::model_hash(model));
    fmt::print("model {}\n", to_hex(digest));
    return {};
  }
  int64_t elements = 0;
  for (const auto& tensor : model.tensors()) {
    fmt::print("{:<40} {:<4} {}\n", tensor.name, name_of(tensor.dtype), to_string(tensor.shape));
    elements += tensor.shape.elements();
  }
  for (const auto& [key, value] : model.metadata()) fmt::print("{}: {}\n", key, value);
  fmt::print("{} tensors, {} elements\n", model.tensors().size(), elements);
  return {};
}

Status inspect_checkpoint(const FileSystem& files, const std::string& folder, bool hash) {
  DTRAIN_TRY_ASSIGN(const auto reader, checkpoint::LogicalReader::open(files, folder));
  DTRAIN_TRY(checkpoint::verify_files(files, folder, reader.manifest()));
  if (hash) {
    DTRAIN_TRY_ASSIGN(const Digest model, checkpoint::model_hash(reader));
    DTRAIN_TRY_ASSIGN(const Digest state, checkpoint::state_hash(reader));
    fmt::print("model {}\nstate {}\n", to_hex(model), to_hex(state));
    return {};
  }
  const checkpoint::Manifest& m = reader.manifest();
  fmt::print("checkpoint of '{}' after step {}, written by dtrain {}\n", m.run_name, m.step, m.program);
  fmt::print("seed {}, {} micro-batches a step, {} thread{} for one; run {}\n", m.seed, m.micro_batches, m.threads,
             m.threads == 1 ? "" : "s", m.run_digest.substr(0, 12));
  for (const auto& p : m.parameters)
    fmt::print("{:<40} {:<4} {}{}\n", p.name, name_of(p.dtype), to_string(p.shape),
               p.kind == checkpoint::ParameterKind::kStatistic ? "  (running statistic)"
               : p.kind == checkpoint::ParameterKind::kFrozen  ? "  (frozen)"
               : p.kind == checkpoint::ParameterKind::kSparse
                   ? fmt::format("  (sparse: {} rows kept)", reader.rows(p.name))
                   : "");
  fmt::print("optimizer state: {}\n", m.slots.empty() ? "none" : fmt::format("{}", fmt::join(m.slots, ", ")));
  for (const auto& file : m.files) fmt::print("{}: {} bytes, sha256 {}\n", file.name, file.bytes, to_hex(file.sha256));
  return {};
}

Status inspect(const InspectFlags& flags) {
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const ModelPath model, find_model(files, flags.path));
  return model.checkpoint ? inspect_checkpoint(files, model.path, flags.hash) : inspect_model(files, flags);
}

}  // namespace

const Command kInspect{
    "inspect", "say what a model file or a checkpoint holds", [](CLI::App& app) -> std::function<ExitCode()> {
      auto flags = std::make_shared<InspectFlags>();
      app.add_option("PATH", flags->path,
                     "model.safetensors, a checkpoint's folder, or a run's folder (its newest checkpoint)")
          ->required();
      add_switch(
          app, "--hash", flags->hash,
          "print the SHA-256 of the model (names, types, shapes, values) and, of a checkpoint, of the whole state");
      return [flags] {
        const Status done = inspect(*flags);
        return done ? ExitCode::kDone : report(done.error());
      };
    }};

}  // namespace dtrain::cmd
