// Which pictures a data set has, of which class each is, and what the classes are called.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"

namespace dtrain::data {

struct ImageList {
  struct Item {
    std::string name;  // as seen from `root`, unless it is absolute
    int32_t label = 0;
  };
  std::string root;
  std::vector<std::string> classes;  // by label; none where the labels were numbers
  std::vector<Item> items;           // at least one

  std::string path(size_t item) const;
  // At most `n` pictures, evenly spaced, so that all classes stay.
  void keep(size_t n);
};

// Folder by folder, files by name; a class is a folder, in the order of their names. Hidden ones are passed over, and
// what does not end in .jpg, .jpeg or .png. A class without pictures is an error.
Result<ImageList> images_in_folder(const FileSystem& files, const std::string& folder);
// The pictures of the folder itself, without classes; where it holds none, those of the folders in it.
Result<ImageList> unlabelled_images(const FileSystem& files, const std::string& folder);
// Lines of a path, a comma or tab (where there is one) and a class. Classes are all numbers, or all names, which are
// sorted. A first line whose class is "label" or "class" is a heading. Numbers must be below `classes`; 0: any. Where
// `labelled` is false, the class may be missing and does not count.
Result<ImageList> list_images(const FileSystem& files, const std::string& list, int64_t classes, bool labelled);

}  // namespace dtrain::data
