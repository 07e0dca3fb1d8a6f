#include "node/out_folder.h"

#include <fmt/format.h>

namespace dtrain::node {

Status OutFolder::create(FileSystem& files) const {
  for (const std::string& mark : {metrics(), checkpoints(), model()}) {
    DTRAIN_TRY_ASSIGN(const bool there, under_code(ExitCode::kUsage, files.exists(mark)));
    if (there)
      return fail(ExitCode::kUsage,
                  fmt::format("{} holds a run already ({}): give another --out, go on with it by --resume, "
                              "or remove it",
                              path_, mark.substr(path_.size() + 1)));
  }
  return under_code(ExitCode::kUsage, files.make_directories(path_));
}

}  // namespace dtrain::node
