#include "watch/npy_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace dtrain::watch {

Status write_npy(FileSystem& files, const std::string& path, const Shape& shape, std::span<const float> values) {
  DTRAIN_CHECK(shape.elements() == static_cast<int64_t>(values.size()));
  // A tuple of one has a comma behind it.
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                   fmt::join(shape.dims(), ", "), shape.rank() == 1 ? "," : "");
  constexpr size_t kPreamble = 10, kAlignment = 64;
  const size_t unpadded = kPreamble + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string preamble("\x93NUMPY\x01\x00", 8);
  preamble += static_cast<char>(header.size() & 0xff);
  preamble += static_cast<char>(header.size() >> 8);

  const std::string beside = path + ".part";
  auto written = [&]() -> Status {
    DTRAIN_TRY_ASSIGN(const auto file, files.create(beside));
    const std::string head = preamble + header;
    DTRAIN_TRY(file->write(std::as_bytes(std::span(head))));
    DTRAIN_TRY(file->write(std::as_bytes(values)));
    DTRAIN_TRY(file->close());
    return files.rename(beside, path);
  };
  Status done = written();
  if (!done) (void)files.remove_tree(beside);
  return done;
}

}  // namespace dtrain::watch
