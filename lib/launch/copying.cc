#include "launch/copying.h"

#include <fmt/format.h>

#include <filesystem>

#include "launch/shell_quote.h"

namespace dtrain::launch {
namespace {

// As rsync and tar read it, whatever the names hold.
std::string list_of(const CopyJob& job) {
  std::string out;
  for (const std::string& path : job.paths) out += path + '\0';
  return out;
}

}  // namespace

Pipeline rsync_copy(const SshOptions& ssh, const SshTarget& to, const CopyJob& job) {
  // A bare IPv6 address would be read as host:path.
  const size_t user = to.host.find('@') == std::string::npos ? 0 : to.host.find('@') + 1;
  const bool v6 = to.host.find(':') != std::string::npos;
  const std::string host = v6 ? to.host.substr(0, user) + "[" + to.host.substr(user) + "]" : to.host;
  // Folders on the way are made where they are missing, and left as they are elsewhere. Of -e rsync takes the words
  // apart at blanks, and knows quotation marks.
  std::vector<std::string> words{"rsync",       "--archive",      "--no-owner", "--no-group", "--no-implied-dirs",
                                 "--recursive", "--protect-args", "--mkpath",   "--from0",    "--files-from=-"};
  if (job.by_content) words.emplace_back("--checksum");
  words.insert(words.end(),
               {"-e", shell_quote(ssh_words(ssh, to)), "--", job.base + "/", host + ":" + job.target + "/"});
  return {{std::move(words)}, list_of(job)};
}

Pipeline tar_copy(const SshOptions& ssh, const SshTarget& to, const CopyJob& job) {
  const std::string there = "exec /bin/sh -c " + shell_quote(fmt::format("mkdir -p -- {0} && exec tar -C {0} -xzf -",
                                                                         shell_quote(job.target)));
  return {{{"tar", "-C", job.base, "--null", "--files-from=-", "-czf", "-"}, ssh_command(ssh, to, there)},
          list_of(job)};
}

Pipeline program_copy(const SshOptions& ssh, const SshTarget& to, const std::string& program,
                      const std::string& place) {
  const std::string path = "\"$HOME\"/" + shell_quote(place.substr(6));
  // A connection that is cut looks there like the end of the file.
  std::error_code unknown;
  const auto size = std::filesystem::file_size(program, unknown);
  const std::string script = fmt::format(
      "umask 077; p={}; mkdir -p \"$(dirname \"$p\")\" && cat > \"$p.$$\" && test \"$(wc -c < \"$p.$$\")\" -eq {} && "
      "chmod 700 \"$p.$$\" && mv -f \"$p.$$\" \"$p\" || {{ rm -f \"$p.$$\"; exit 1; }}",
      path, unknown ? 0 : size);
  return {{ssh_command(ssh, to, "exec /bin/sh -c " + shell_quote(script))}, std::nullopt, program};
}

}  // namespace dtrain::launch
