#include "launch_copies.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/sha256.h"
#include "config/load.h"
#include "process.h"

namespace dtrain::cmd {
namespace {

// The files that every host needs to read the run, by what reading it here takes.
Result<std::vector<std::string>> files_of_run(const LaunchFlags& flags) {
  std::vector<std::string> files;
  const auto read = [&files](const std::string& path) {
    files.push_back(path);
    return config::read_file_from_disk(path);
  };
  DTRAIN_TRY(config::load_file(flags.run.run_file.file, flags.run.run_file.set, read));
  if (!flags.run.init.empty()) files.push_back(flags.run.init);
  return files;
}

// What lies below this folder goes below the hosts' one, all else to the same place.
std::vector<launch::CopyJob> copies(const std::vector<std::string>& files, const std::string& remote_dir,
                                    bool by_content) {
  const std::string here = std::filesystem::current_path().string();
  launch::CopyJob below{here, remote_dir.empty() ? here : remote_dir, {}, by_content};
  launch::CopyJob elsewhere{"/", "/", {}, by_content};
  for (const std::string& file : files) {
    const std::string path = std::filesystem::absolute(file).lexically_normal().string();
    if (path.starts_with(here + "/"))
      below.paths.push_back(path.substr(here.size() + 1));
    else
      elsewhere.paths.push_back(path.substr(1));
  }
  std::vector<launch::CopyJob> jobs;
  for (launch::CopyJob& job : std::array{below, elsewhere})
    if (!job.paths.empty()) jobs.push_back(std::move(job));
  return jobs;
}

}  // namespace

Result<std::vector<launch::CopyJob>> launch_copies(const LaunchFlags& flags, const node::RunDefinition& run) {
  DTRAIN_TRY_ASSIGN(const auto files, files_of_run(flags));
  std::vector<launch::CopyJob> jobs = copies(files, flags.remote_dir, true);
  std::vector<std::string> data;
  if (flags.sync_data)
    for (const auto& file : run.data_files()) data.push_back(file.path);
  for (launch::CopyJob& job : copies(data, flags.remote_dir, false)) jobs.push_back(std::move(job));
  return jobs;
}

std::string store_path(FileSystem& files) {
  constexpr uint64_t kLargest = 1u << 30;
  const auto program = files.read_file(own_path(), kLargest);
  return fmt::format("$HOME/.cache/dtrain/{}-{}/dtrain", DTRAIN_VERSION,
                     program ? to_hex(sha256(*program)).substr(0, 16) : "unknown");
}

}  // namespace dtrain::cmd
