// The flags of `run` that `launch` takes too and hands on.
#pragma once

#include <string>
#include <vector>

#include "flags.h"

namespace dtrain::cmd {

struct RunFlags {
  RunFileFlags run_file;
  std::string out, init, progress = "auto";
  bool resume = false, auto_resume = false, allow_guests = false, allow_put = false;

  void declare(CLI::App& app) {
    run_file.declare(app);
    add_flag_value(app, "--out", out, "folder to write into; default runs/<name>")->type_name("DIR");
    add_flag_value(app, "--init", init, "start from the parameters of this model.safetensors")->type_name("FILE");
    add_switch(app, "--resume", resume, "go on with the run in --out, from its newest checkpoint");
    add_switch(
        app, "--auto_resume", auto_resume,
        "go on with the run in --out where it has a checkpoint, else begin anew: for whatever starts runs again");
    add_switch(app, "--allow_guests", allow_guests, "let guests (dtrain params, dtrain top) of other hosts look on");
    add_switch(app, "--allow_put", allow_put, "let guests replace tensors (dtrain params put)");
    add_flag_value(app, "--progress", progress,
                   "what to show: a bar on a terminal and lines elsewhere (auto), or one of always, lines, never")
        ->check(CLI::IsMember({"auto", "always", "lines", "never"}));
  }
  Status check() const {
    if (!resume || !auto_resume) return {};
    return fail(ExitCode::kUsage, "give --resume or --auto_resume: the first wants a checkpoint, the second takes one");
  }
  // To hand on to a task, but for --out and --progress, which are the launcher's to say. `again`: it is started again,
  // and goes on where it can.
  std::vector<std::string> words(bool again = false) const {
    std::vector<std::string> out;
    for (const std::string& set : run_file.set) out.insert(out.end(), {"--set", set});
    if (!init.empty()) out.insert(out.end(), {"--init", init});
    if (allow_guests) out.emplace_back("--allow_guests");
    if (allow_put) out.emplace_back("--allow_put");
    if (resume && !again) out.emplace_back("--resume");
    if (auto_resume || again) out.emplace_back("--auto_resume");
    return out;
  }
  std::string out_folder(const std::string& run_name) const { return out.empty() ? "runs/" + run_name : out; }
};

}  // namespace dtrain::cmd
