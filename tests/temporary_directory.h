// A directory that goes with the test; in memory where the system has a place for that, since tests rewrite small files
// thousands of times.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace dtrain {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const bool memory = access("/dev/shm", W_OK) == 0;
    std::string pattern = (memory ? "/dev/shm/" : ::testing::TempDir()) + std::string("dtrain_XXXXXX");
    path_ = mkdtemp(pattern.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace dtrain
