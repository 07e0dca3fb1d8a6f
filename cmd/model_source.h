// A model that a user names, opened: its parameters, and what it carries of its training data.
#pragma once

#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "node/evaluate.h"
#include "node/learnt.h"

namespace dtrain::cmd {

struct Model {
  node::ParameterSource parameters;
  std::shared_ptr<const node::RowSource> rows;  // of sparse tables
  node::Learnt learnt;
};

// `path` as find_model() takes it.
Result<Model> open_model(FileSystem& files, const std::string& path);

}  // namespace dtrain::cmd
