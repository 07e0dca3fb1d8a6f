// Lines out of bytes that come in pieces, and bytes that wait until they can be written: the two directions of a
// connection that speaks in lines.
#pragma once

#include <string>
#include <string_view>

namespace dtrain::launch {

class LineReader {
 public:
  // Takes what can be read from `fd` now without blocking, not more than some hundred KiB at a time; false at its end,
  // at an error, or where a line is longer than any that is meant.
  bool fill(int fd);
  // The next whole line without its end; false where there is none.
  bool next(std::string& line);

 private:
  std::string bytes_;
  size_t begin_ = 0, looked_ = 0;  // of the line that is next; up to where there is no end of a line
};

class LineWriter {
 public:
  void add(std::string_view bytes) { bytes_ += bytes; }
  // Writes what `fd` takes without blocking; false where it takes nothing any more.
  bool flush(int fd);
  size_t waiting() const { return bytes_.size() - begin_; }

 private:
  std::string bytes_;
  size_t begin_ = 0;
};

}  // namespace dtrain::launch
