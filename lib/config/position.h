// Where a value of a configuration was written. A value type; copies share the file's name.
#pragma once

#include <memory>
#include <string>

namespace dtrain::config {

class Position {
 public:
  Position() = default;
  // Lines and columns count from 1, columns in characters. Line 0 means that `file` is no file but another source,
  // such as "--set train.steps".
  Position(std::string file, int line, int column)
      : Position(std::make_shared<const std::string>(std::move(file)), line, column) {}
  Position(std::shared_ptr<const std::string> file, int line, int column)
      : file_(std::move(file)), line_(line), column_(column) {}

  // As the user named it, or as an include led to it; "" where unknown.
  const std::string& file() const {
    static const std::string kNone;
    return file_ ? *file_ : kNone;
  }
  int line() const { return line_; }
  int column() const { return column_; }
  bool in_file() const { return line_ > 0; }
  bool operator==(const Position& o) const { return file() == o.file() && line_ == o.line_ && column_ == o.column_; }

 private:
  std::shared_ptr<const std::string> file_;
  int line_ = 0;
  int column_ = 0;
};

// "run.toml:12:3", or the bare source where there is no line.
std::string to_string(const Position& position);

}  // namespace dtrain::config
