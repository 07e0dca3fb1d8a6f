// The flags of `run` that `launch` takes too and hands on.
#pragma once

#include <string>
#include <vector>

#include "flags.h"

namespace dtrain::cmd {

struct RunFlags {
  RunFileFlags run_file;
  std::string out, init, progress = "auto";
  bool resume = false;

  void declare(CLI::App& app) {
    run_file.declare(app);
    add_flag_value(app, "--out", out, "folder to write into; default runs/<name>")->type_name("DIR");
    add_flag_value(app, "--init", init, "start from the parameters of this model.safetensors")->type_name("FILE");
    add_switch(app, "--resume", resume, "go on with the run in --out, from its newest checkpoint");
    add_flag_value(app, "--progress", progress,
                   "what to show: a bar on a terminal and lines elsewhere (auto), or one of always, lines, never")
        ->check(CLI::IsMember({"auto", "always", "lines", "never"}));
  }
  std::string out_folder(const std::string& run_name) const { return out.empty() ? "runs/" + run_name : out; }
};

}  // namespace dtrain::cmd
