// A file of delimited text in memory, record by record: RFC 4180 (quoted fields, "" for a quote in them, CRLF or LF),
// with or without a byte order mark and a header. Blank lines are skipped. Every record has as many fields as the
// first, or is refused with file and line. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "base/sha256.h"
#include "tensor/buffer.h"

namespace dtrain::data {

struct CsvOptions {
  char delimiter = ',';
  std::optional<bool> header;  // empty: the first record is one where none of its fields is a number
  bool trim = false;           // blanks around fields that are not quoted do not belong to them
};

class CsvFile {
 public:
  // Reads the whole file, and its header. Errors: ExitCode::kData with the path, and the line where there is one.
  static Result<CsvFile> open(const FileSystem& files, const std::string& path, const CsvOptions& options);

  const std::string& path() const { return path_; }
  const Digest& digest() const { return digest_; }
  int64_t fields() const { return static_cast<int64_t>(fields_.size()); }  // of each record
  const std::vector<std::string>& header() const { return header_; }       // empty where there is none
  size_t most_records() const { return most_records_; }                    // at least as many as there are

  // Goes to the next record; false at the end.
  Result<bool> next();
  // Field `i` of the record; valid until the next one.
  std::string_view field(size_t i) const { return fields_[i]; }
  int64_t line() const { return line_; }  // where the record begins, from 1
  tl::unexpected<Error> error(std::string_view reason) const;

 private:
  std::string_view rest() const;
  Result<bool> scan();
  Result<std::string_view> quoted();
  std::string_view plain();
  bool take_line_end();
  size_t leading_blanks() const;

  std::string path_;
  Buffer text_;
  CsvOptions options_;
  Digest digest_{};
  size_t at_ = 0;  // what has been read of the text
  size_t most_records_ = 0;
  int64_t line_ = 0, next_line_ = 1;
  bool pending_ = false;  // the first record is no header: it is still to come
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;  // what fields with "" in them mean
  std::vector<std::string> header_;
};

// A finite decimal number, and nothing else but blanks around it.
std::optional<double> parse_number(std::string_view text);

// Whether text is UTF-8, so that it can be a name in a model or in a table of results.
bool is_utf8(std::string_view text);

}  // namespace dtrain::data
