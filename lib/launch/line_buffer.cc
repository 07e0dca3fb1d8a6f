#include "launch/line_buffer.h"

#include <unistd.h>

#include <cerrno>

namespace dtrain::launch {

bool LineReader::fill(int fd) {
  constexpr size_t kLongestLine = 16u << 20;  // a cluster file is in one
  char buffer[16 * 1024];
  for (int pieces = 0; pieces < 32; ++pieces) {
    if (bytes_.size() - begin_ > kLongestLine) return false;
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n > 0) bytes_.append(buffer, static_cast<size_t>(n));
    if (n == 0) return false;
    if (n < 0 && errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

bool LineReader::next(std::string& line) {
  const size_t end = bytes_.find('\n', looked_);
  if (end == std::string::npos) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    looked_ = bytes_.size();
    return false;
  }
  line.assign(bytes_, begin_, end - begin_);
  begin_ = looked_ = end + 1;
  return true;
}

bool LineWriter::flush(int fd) {
  while (waiting() > 0) {
    const ssize_t n = ::write(fd, bytes_.data() + begin_, waiting());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN;
    begin_ += static_cast<size_t>(n);
  }
  bytes_.clear();
  begin_ = 0;
  return true;
}

}  // namespace dtrain::launch
