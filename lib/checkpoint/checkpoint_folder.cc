#include "checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "tensor/buffer.h"

namespace dtrain::checkpoint {
namespace {

constexpr uint64_t kMaxManifest = 256u << 20;
constexpr std::string_view kStep = "step-", kTemporary = ".tmp-step-", kRemoved = ".old-step-";

template <typename T>
Result<T> here(Result<T> result) {
  return under_code(ExitCode::kCheckpoint, std::move(result));
}

std::string folder_name(std::string_view prefix, int64_t step) { return fmt::format("{}{:08}", prefix, step); }

std::optional<int64_t> step_of(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t step = -1;
  if (std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step).ec != std::errc())
    return std::nullopt;
  return step >= 0 && folder_name(prefix, step) == name ? std::optional(step) : std::nullopt;
}

Status verify_file(const FileSystem& files, const std::string& path, const ManifestFile& expected) {
  DTRAIN_TRY_ASSIGN(auto file, here(files.open(path)));
  if (file->size() != expected.bytes)
    return fail(ExitCode::kCheckpoint, fmt::format("'{}' has {} bytes instead of {}: it was cut or exchanged", path,
                                                   file->size(), expected.bytes));
  Sha256 hash;
  Buffer piece(std::min<uint64_t>(expected.bytes, 1u << 20));
  for (uint64_t at = 0; at < expected.bytes; at += piece.size()) {
    const MutableByteSpan part(piece.data(), std::min<uint64_t>(piece.size(), expected.bytes - at));
    DTRAIN_TRY(here(file->read(at, part)));
    hash.update(part);
  }
  if (hash.finish() != expected.sha256)
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' is damaged: its SHA-256 is not the one in the manifest", path));
  return {};
}

}  // namespace

std::string CheckpointFolder::path_of(int64_t step) const { return root_ + "/" + folder_name(kStep, step); }
std::string CheckpointFolder::temporary_path(int64_t step) const { return root_ + "/" + folder_name(kTemporary, step); }

Result<ManifestFile> CheckpointFolder::write_shard(int64_t step, int64_t server, std::span<const ShardBlock> blocks,
                                                   std::span<const ShardRows> rows) {
  const std::string directory = temporary_path(step);
  DTRAIN_TRY(here(files_.make_directories(directory)));
  return checkpoint::write_shard(files_, directory, step, server, blocks, rows);
}

Result<ManifestFile> CheckpointFolder::put_shard(int64_t step, int64_t server, ByteSpan bytes) {
  const std::string directory = temporary_path(step), name = shard_file_name(server);
  DTRAIN_TRY(here(files_.make_directories(directory)));
  DTRAIN_TRY(here(files_.replace_file(directory + "/" + name,
                                      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))));
  Sha256 hash;
  hash.update(bytes);
  return ManifestFile{name, bytes.size(), hash.finish()};
}

Status CheckpointFolder::commit(const Manifest& manifest) {
  const std::string from = temporary_path(manifest.step), to = path_of(manifest.step);
  DTRAIN_TRY_ASSIGN(const auto present, here(files_.list(from)));
  for (const ManifestFile& f : manifest.files) {
    if (!std::binary_search(present.begin(), present.end(), f.name))
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}' lacks '{}': do all servers see the same disk?", from, f.name));
    DTRAIN_TRY_ASSIGN(auto file, here(files_.open(from + "/" + f.name)));
    if (file->size() != f.bytes)
      return fail(ExitCode::kCheckpoint,
                  fmt::format("'{}/{}' has {} bytes, its server wrote {}", from, f.name, file->size(), f.bytes));
  }
  // Shards of an earlier attempt with more servers do not belong to it.
  for (const std::string& name : present) {
    const bool listed = std::any_of(manifest.files.begin(), manifest.files.end(),
                                    [&](const ManifestFile& f) { return f.name == name; });
    if (!listed) DTRAIN_TRY(here(files_.remove_tree(from + "/" + name)));
  }
  DTRAIN_TRY(here(files_.replace_file(from + "/" + Manifest::kFileName, to_json(manifest))));

  DTRAIN_TRY_ASSIGN(const bool there, here(files_.exists(to)));
  if (there) {
    Result<Manifest> before = load(manifest.step);
    if (before && before->run_digest == manifest.run_digest && verify(*before)) return abandon(manifest.step);
    // It is of no use to anybody; a rename first, so that a half-removed folder never looks like a checkpoint.
    const std::string aside = root_ + "/" + folder_name(kRemoved, manifest.step);
    log_.warning("replacing the damaged checkpoint '{}'", to);
    DTRAIN_TRY(here(files_.remove_tree(aside)));
    DTRAIN_TRY(here(files_.rename(to, aside)));
    DTRAIN_TRY(here(files_.remove_tree(aside)));
  }
  DTRAIN_TRY(here(files_.rename(from, to)));
  DTRAIN_TRY(here(files_.sync_directory(root_)));
  return here(files_.sync_directory(parent_path(root_)));  // the first checkpoint has made root_ itself
}

Status CheckpointFolder::abandon(int64_t step) { return here(files_.remove_tree(temporary_path(step))); }

Result<std::vector<int64_t>> CheckpointFolder::list() const {
  std::vector<int64_t> steps;
  DTRAIN_TRY_ASSIGN(const bool there, here(files_.exists(root_)));
  if (!there) return steps;
  DTRAIN_TRY_ASSIGN(const auto names, here(files_.list(root_)));
  for (const std::string& name : names) {
    const std::optional<int64_t> step = step_of(kStep, name);
    if (!step) continue;
    DTRAIN_TRY_ASSIGN(const bool complete, here(files_.exists(path_of(*step) + "/" + Manifest::kFileName)));
    if (complete) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Status verify_files(const FileSystem& files, const std::string& folder, const Manifest& manifest) {
  for (const ManifestFile& f : manifest.files) DTRAIN_TRY(verify_file(files, folder + "/" + f.name, f));
  return {};
}

Result<Manifest> CheckpointFolder::load(int64_t step) const { return load_manifest(files_, path_of(step)); }

Status CheckpointFolder::verify(const Manifest& manifest) const {
  return verify_files(files_, path_of(manifest.step), manifest);
}

Result<std::optional<Manifest>> CheckpointFolder::newest() const {
  DTRAIN_TRY_ASSIGN(auto steps, list());
  std::string last_reason;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    Result<Manifest> manifest = load(*step);
    Status sound = manifest ? verify(*manifest) : Status(tl::unexpected<Error>(manifest.error()));
    if (sound) return std::optional<Manifest>(std::move(*manifest));
    last_reason = sound.error().message;
    log_.warning("checkpoint '{}' cannot be used: {}", path_of(*step), last_reason);
  }
  if (!steps.empty())
    return fail(ExitCode::kCheckpoint, fmt::format("none of the {} checkpoints in '{}' can be used; the oldest: {}",
                                                   steps.size(), root_, last_reason));
  return std::optional<Manifest>();
}

Status CheckpointFolder::prune(int64_t keep, int64_t newest) {
  DTRAIN_CHECK(keep >= 1);
  DTRAIN_TRY_ASSIGN(auto steps, list());
  std::erase_if(steps, [&](int64_t step) { return step > newest; });
  if (steps.empty()) return {};
  const auto count = static_cast<int64_t>(steps.size());
  for (int64_t i = 0; i < count - keep; ++i) {
    // Renamed away first: interrupted, a checkpoint must not remain that has lost half of its files.
    const std::string aside = root_ + "/" + folder_name(kRemoved, steps[static_cast<size_t>(i)]);
    DTRAIN_TRY(here(files_.remove_tree(aside)));
    DTRAIN_TRY(here(files_.rename(path_of(steps[static_cast<size_t>(i)]), aside)));
    DTRAIN_TRY(here(files_.remove_tree(aside)));
  }
  DTRAIN_TRY_ASSIGN(const auto names, here(files_.list(root_)));
  for (const std::string& name : names) {
    std::optional<int64_t> left = step_of(kTemporary, name);
    if (!left) left = step_of(kRemoved, name);
    if (left && *left <= newest) DTRAIN_TRY(here(files_.remove_tree(root_ + "/" + name)));
  }
  return {};
}

Result<Manifest> load_manifest(const FileSystem& files, const std::string& folder) {
  const std::string path = folder + "/" + Manifest::kFileName;
  DTRAIN_TRY_ASSIGN(const std::string json, here(files.read_file(path, kMaxManifest)));
  DTRAIN_TRY_ASSIGN(Manifest manifest, manifest_from_json(json, path));
  const std::string name = folder.substr(folder.find_last_of('/') + 1);
  if (const std::optional<int64_t> step = step_of(kStep, name); step && *step != manifest.step)
    return fail(ExitCode::kCheckpoint,
                fmt::format("'{}' is of step {}, its folder says {}", path, manifest.step, *step));
  return manifest;
}

}  // namespace dtrain::checkpoint
