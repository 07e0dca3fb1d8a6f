// The ways to say which tasks there are: a file, TensorFlow's flags, or just numbers of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/spec.h"
#include "config/load.h"
#include "flags.h"

namespace dtrain::cmd {

// What the command line says of a cluster besides its addresses; a cluster file says it itself.
struct SpecFlags {
  cluster::SpecOptions options;

  void declare(CLI::App& app) {
    add_flag_value(app, "--servers", options.servers,
                   "where parameters lie: on ps tasks, beside the workers, or both: ps, workers or all")
        ->check(CLI::IsMember({"ps", "workers", "all"}));
    add_flag_value(app, "--max_workers", options.max_workers,
                   "so many workers may be there; others than those listed join")
        ->check(CLI::Range(1, 65536));
    add_flag_value(app, "--min_workers", options.min_workers, "the run waits while fewer workers are there")
        ->check(CLI::Range(1, 65536));
    add_flag_value(app, "--start_grace", options.start_grace,
                   "seconds that the start waits for more than --min_workers; default 10")
        ->check(number_from(0, 86400));
  }
  bool any() const {
    return !options.servers.empty() || options.max_workers || options.min_workers || options.start_grace;
  }
  // To hand on to another process.
  std::vector<std::string> words() const {
    std::vector<std::string> out;
    if (!options.servers.empty()) out.insert(out.end(), {"--servers", options.servers});
    if (options.max_workers) out.insert(out.end(), {"--max_workers", std::to_string(*options.max_workers)});
    if (options.min_workers) out.insert(out.end(), {"--min_workers", std::to_string(*options.min_workers)});
    if (options.start_grace) out.insert(out.end(), {"--start_grace", fmt::format("{}", *options.start_grace)});
    return out;
  }
  Status not_with_a_file() const {
    if (!any()) return {};
    return fail(ExitCode::kUsage,
                "--cluster names a file: say 'servers' and 'start_grace' there, and 'max_tasks' and 'min_tasks' in "
                "[jobs.worker]");
  }
};

struct ClusterFlags {
  std::string file, file_text, text, ps_hosts, worker_hosts;
  SpecFlags spec;

  void declare(CLI::App& app) {
    add_flag_value(app, "--cluster", file, "cluster spec (TOML)")->type_name("FILE");
    add_flag_value(app, "--cluster_spec", text, "cluster spec as 'worker|HOST:PORT;HOST:PORT,ps|HOST:PORT'")
        ->type_name("SPEC");
    add_flag_value(app, "--ps_hosts", ps_hosts, "parameter servers, as HOST:PORT,HOST:PORT")->type_name("HOSTS");
    add_flag_value(app, "--worker_hosts", worker_hosts, "workers, as HOST:PORT,HOST:PORT")->type_name("HOSTS");
    // For the launcher: what is in a cluster file, where that file is not.
    app.add_option("--cluster_text", file_text, "")->group("");
    spec.declare(app);
  }

  // Nothing where no flag was given; an error where more than one way was.
  Result<std::optional<cluster::ClusterSpec>> read() const {
    const bool lists = !ps_hosts.empty() || !worker_hosts.empty();
    if (!file.empty() + !text.empty() + lists > 1)
      return fail(ExitCode::kUsage,
                  "give the cluster once: --cluster, or --cluster_spec, or --ps_hosts and --worker_hosts");
    auto some = [](Result<cluster::ClusterSpec> read) -> Result<std::optional<cluster::ClusterSpec>> {
      if (!read) return tl::unexpected(read.error());
      return std::optional(std::move(*read));
    };
    if (!file.empty()) {
      DTRAIN_TRY(spec.not_with_a_file());
      DTRAIN_TRY_ASSIGN(const config::Value root, config::load_file(file));
      return some(cluster::read_cluster_spec(root));
    }
    if (!file_text.empty()) {
      DTRAIN_TRY_ASSIGN(const config::Value root, config::load_text(file_text, "the launcher's cluster file"));
      return some(cluster::read_cluster_spec(root));
    }
    if (!text.empty()) return some(cluster::parse_cluster_spec(text, spec.options));
    if (lists) return some(cluster::parse_host_lists(ps_hosts, worker_hosts, spec.options));
    return std::optional<cluster::ClusterSpec>();
  }
};

}  // namespace dtrain::cmd
