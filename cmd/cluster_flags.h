// The ways to say which tasks there are: a file, TensorFlow's flags, or just numbers of them.
#pragma once

#include <optional>
#include <string>

#include "cluster/spec.h"
#include "config/load.h"
#include "flags.h"

namespace dtrain::cmd {

struct ClusterFlags {
  std::string file, text, ps_hosts, worker_hosts;

  void declare(CLI::App& app) {
    add_flag_value(app, "--cluster", file, "cluster spec (TOML)")->type_name("FILE");
    add_flag_value(app, "--cluster_spec", text, "cluster spec as 'worker|HOST:PORT;HOST:PORT,ps|HOST:PORT'")
        ->type_name("SPEC");
    add_flag_value(app, "--ps_hosts", ps_hosts, "parameter servers, as HOST:PORT,HOST:PORT")->type_name("HOSTS");
    add_flag_value(app, "--worker_hosts", worker_hosts, "workers, as HOST:PORT,HOST:PORT")->type_name("HOSTS");
  }

  // Nothing where no flag was given; an error where more than one way was.
  Result<std::optional<cluster::ClusterSpec>> read() const {
    const bool lists = !ps_hosts.empty() || !worker_hosts.empty();
    if (!file.empty() + !text.empty() + lists > 1)
      return fail(ExitCode::kUsage,
                  "give the cluster once: --cluster, or --cluster_spec, or --ps_hosts and --worker_hosts");
    auto some = [](Result<cluster::ClusterSpec> spec) -> Result<std::optional<cluster::ClusterSpec>> {
      if (!spec) return tl::unexpected(spec.error());
      return std::optional(std::move(*spec));
    };
    if (!file.empty()) {
      DTRAIN_TRY_ASSIGN(const config::Value root, config::load_file(file));
      return some(cluster::read_cluster_spec(root));
    }
    if (!text.empty()) return some(cluster::parse_cluster_spec(text));
    if (lists) return some(cluster::parse_host_lists(ps_hosts, worker_hosts));
    return std::optional<cluster::ClusterSpec>();
  }
};

}  // namespace dtrain::cmd
