// The manifest of a checkpoint: which state it is, of which run, and the files that hold it. Written last, so that a
// folder without one does not exist as a checkpoint. It ends with its own SHA-256, so that no flipped byte goes unseen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::checkpoint {

enum class ParameterKind {
  kParameter,  // trained: has every optimizer slot, of its own type and number of elements
  kStatistic,  // running statistics: no slots
  kFrozen,     // never changes: no slots
  kSparse,     // a table [rows, width] of which only some rows are held, each with every optimizer slot
};

struct ManifestParameter {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
  ParameterKind kind = ParameterKind::kParameter;

  bool operator==(const ManifestParameter&) const = default;
};

struct ManifestFile {
  std::string name;  // within the folder; see shard_file_name
  uint64_t bytes = 0;
  Digest sha256{};

  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kFileName = "manifest.json";

  std::string program;        // version of the dtrain that wrote it
  int64_t step = 0;           // steps that are done: the version of every block
  int64_t micro_batches = 0;  // K
  int64_t threads = 0;        // for one micro-batch
  uint64_t seed = 0;
  std::string run_name;
  std::string run_digest;                       // of what must not change on resume
  std::string config;                           // the effective run file, TOML
  std::vector<ManifestParameter> parameters;    // sorted by name
  std::vector<std::string> slots;               // names of the optimizer's slots, sorted
  std::vector<ManifestFile> files;              // sorted by name
  std::map<std::string, std::string> metadata;  // that a model file made of it carries

  bool operator==(const Manifest&) const = default;

  const ManifestParameter* find(std::string_view parameter) const;  // nullptr where there is none
};

// Sorts what a manifest has sorted.
std::string to_json(Manifest manifest);
// Everything is checked; the error (ExitCode::kCheckpoint) begins with `path`.
Result<Manifest> manifest_from_json(std::string_view json, const std::string& path);

// "server-3.safetensors", and back; nothing for any other name.
std::string shard_file_name(int64_t server);
std::optional<int64_t> server_of_shard_file(std::string_view name);

}  // namespace dtrain::checkpoint
