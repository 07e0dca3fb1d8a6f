// Where the secret of a run comes from: a file, or an inherited descriptor. Never the command line or the environment,
// which others can read.
#pragma once

#include <string>

#include "flags.h"
#include "net/mutual_proof.h"

namespace dtrain::cmd {

struct SecretFlags {
  std::string file;
  int fd = -1;

  void declare(CLI::App& app) {
    add_flag_value(app, "--secret_file", file, "a file with the secret that all tasks of the run prove to each other")
        ->type_name("FILE");
  }
  // For the launcher: a pipe or a file that holds the secret to its end. It goes before the file, whose variable a
  // child inherits too.
  void declare_fd(CLI::App& app) { add_flag_value(app, "--secret_fd", fd, "")->group(""); }

  // Without either there is no secret. Errors (kUsage): it cannot be read, or others could read it, or it is too short
  // or too long.
  Result<net::ProofMeans> read() const;
};

}  // namespace dtrain::cmd
