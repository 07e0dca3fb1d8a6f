// A model that a user names, opened: its parameters, and what it carries of its training data.
#pragma once

#include <string>

#include "base/file_system.h"
#include "base/result.h"
#include "node/evaluate.h"
#include "node/learnt.h"

namespace dtrain::cmd {

struct Model {
  node::ParameterSource parameters;
  node::Learnt learnt;
};

// `path` as find_model() takes it.
Result<Model> open_model(FileSystem& files, const std::string& path);

}  // namespace dtrain::cmd
