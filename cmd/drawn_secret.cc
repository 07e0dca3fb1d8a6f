#include "drawn_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/sha256.h"
#include "net/asio/unique_fd.h"
#include "process.h"

namespace dtrain::cmd {

std::string draw_secret() { return to_hex(random_nonce()); }

std::string drawn_secret_file(const std::string& out) { return out + "/secret"; }

Status write_secret(const std::string& path, const std::string& secret) {
  const auto failed = [&] {
    return fail(ExitCode::kUsage, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  };
  unlink(path.c_str());
  const net::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return failed();
  const std::string line = secret + "\n";
  if (write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) return failed();
  return {};
}

}  // namespace dtrain::cmd
