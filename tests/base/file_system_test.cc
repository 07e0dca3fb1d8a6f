#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

namespace dtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileSystemTest : public ::testing::Test {
 protected:
  FileSystemTest() {
    std::string pattern = ::testing::TempDir() + "/file_system_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~FileSystemTest() override { std::filesystem::remove_all(root_); }

  RealFileSystem files_;
  std::string root_;
};

TEST_F(FileSystemTest, ReadsWhatItWrote) {
  ASSERT_TRUE(files_.replace_file(root_ + "/a", "hello"));
  EXPECT_EQ(files_.read_file(root_ + "/a", 5).value(), "hello");
  ASSERT_TRUE(files_.replace_file(root_ + "/a", "bye"));
  EXPECT_EQ(files_.read_file(root_ + "/a", 5).value(), "bye");
  EXPECT_THAT(files_.list(root_).value(), ElementsAre("a"));
}

TEST_F(FileSystemTest, RefusesAFileOverTheLimit) {
  ASSERT_TRUE(files_.replace_file(root_ + "/a", "hello"));
  auto read = files_.read_file(root_ + "/a", 4);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("5 bytes"));
}

TEST_F(FileSystemTest, NamesTheFileAndTheReason) {
  auto missing = files_.open(root_ + "/nowhere");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "cannot open '" + root_ + "/nowhere': No such file or directory");
  EXPECT_EQ(missing.error().code, ExitCode::kData);
  EXPECT_EQ(under_code(ExitCode::kCheckpoint, files_.list(root_ + "/nowhere")).error().code, ExitCode::kCheckpoint);
  auto created = files_.create(root_ + "/nowhere/a");
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().message, HasSubstr("cannot create"));
}

TEST_F(FileSystemTest, ReadingPastTheEndIsAnError) {
  ASSERT_TRUE(files_.replace_file(root_ + "/a", "hello"));
  auto file = files_.open(root_ + "/a").value();
  std::byte bytes[3];
  EXPECT_TRUE(file->read(2, bytes));
  EXPECT_EQ(static_cast<char>(bytes[2]), 'o');
  auto past = file->read(3, bytes);
  ASSERT_FALSE(past);
  EXPECT_THAT(past.error().message, HasSubstr("ends at byte 5"));
}

TEST_F(FileSystemTest, DirectoriesAndPipesAreNotFiles) {
  EXPECT_THAT(files_.open(root_).error().message, HasSubstr("Is a directory"));
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(files_.open(root_ + "/pipe").error().message, HasSubstr("not a regular file"));
}

TEST_F(FileSystemTest, TreesAreMadeAndRemoved) {
  ASSERT_TRUE(files_.make_directories(root_ + "/a/b/c"));
  ASSERT_TRUE(files_.make_directories(root_ + "/a/b/c"));
  ASSERT_TRUE(files_.sync_directory(root_ + "/a/b"));
  ASSERT_TRUE(files_.replace_file(root_ + "/a/b/file", "x"));
  EXPECT_TRUE(files_.exists(root_ + "/a/b").value());
  ASSERT_TRUE(files_.rename(root_ + "/a", root_ + "/z"));
  EXPECT_FALSE(files_.exists(root_ + "/a").value());
  ASSERT_TRUE(files_.remove_tree(root_ + "/z"));
  ASSERT_TRUE(files_.remove_tree(root_ + "/z"));
  EXPECT_FALSE(files_.exists(root_ + "/z/b").value());
}

TEST(ParentPathTest, FollowsTheSlashes) {
  EXPECT_EQ(parent_path("a/b/c"), "a/b");
  EXPECT_EQ(parent_path("/c"), "/");
  EXPECT_EQ(parent_path("c"), ".");
}

}  // namespace
}  // namespace dtrain
