#include "launch_kubernetes.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>
#include <set>

#include "base/file_system.h"
#include "base/run_secret.h"
#include "config/canonical.h"
#include "launch/kubernetes.h"
#include "node/arithmetic.h"
#include "node/memory_estimate.h"
#include "node/run_definition.h"
#include "process.h"
#include "task_environment.h"

namespace dtrain::cmd {
namespace {

// What the program itself and its libraries take beside the tensors of a run.
constexpr double kOfItself = 256.0 * (1 << 20);

struct PodMemory {
  std::string worker, ps;
};

// As a quantity of Kubernetes, with a quarter of reserve.
std::string quantity(double bytes) {
  return fmt::format("{:.0f}Mi", std::ceil((bytes * 1.25 + kOfItself) / (1 << 20)));
}

Result<PodMemory> pod_memory(const LaunchFlags& flags, const node::RunDefinition& run, int workers, int ps) {
  if (!flags.pod.memory.empty()) return PodMemory{flags.pod.memory, flags.pod.memory};
  DTRAIN_TRY(node::set_up_arithmetic(run.spec.train));
  DTRAIN_TRY_ASSIGN(const auto memory, node::estimate_memory_of(run, static_cast<uint32_t>(workers),
                                                                static_cast<uint32_t>(ps > 0 ? ps : workers)));
  return PodMemory{quantity(memory.worker() + (ps > 0 ? 0 : memory.server())), quantity(memory.server())};
}

// CLAIM:/path
Result<std::pair<std::string, std::string>> claim_of(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == 0 || colon == std::string::npos || text.size() < colon + 2 || text[colon + 1] != '/')
    return fail(ExitCode::kUsage, fmt::format("--data_claim '{}': the name of a PersistentVolumeClaim and where it is "
                                              "to be seen, as photos:/data/photos",
                                              text));
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

// What kubectl would refuse, or what would hide a pod's own files.
Status check_names(const PodFlags& pod) {
  static const std::regex kName("[a-z0-9]([-a-z0-9.]*[a-z0-9])?"), kQuantity("[0-9]+(\\.[0-9]+)?([EPTGMk]i?|Ki|m)?");
  const auto check = [](const char* flag, const std::string& value, const std::regex& form,
                        const char* example) -> Status {
    if (value.empty() || (value.size() <= 253 && std::regex_match(value, form))) return {};
    return fail(ExitCode::kUsage, fmt::format("{} '{}' is none: {}", flag, value, example));
  };
  DTRAIN_TRY(check("--namespace", pod.name_space, kName, "small letters, digits and '-', as in my-team"));
  DTRAIN_TRY(check("--out_claim", pod.out_claim, kName, "the name of a PersistentVolumeClaim, as in my-claim"));
  DTRAIN_TRY(check("--memory", pod.memory, kQuantity, "a quantity, as 4Gi or 1500Mi"));
  DTRAIN_TRY(check("--storage", pod.storage, kQuantity, "a quantity, as 10Gi"));
  std::set<std::string> paths;
  for (const std::string& text : pod.data_claims) {
    DTRAIN_TRY_ASSIGN(const auto claim, claim_of(text));
    DTRAIN_TRY(check("--data_claim", claim.first, kName, "the name of a PersistentVolumeClaim, as in my-claim"));
    if (claim.second == "/" || claim.second.starts_with("/etc/dtrain") || claim.second.starts_with("/var/lib/dtrain"))
      return fail(
          ExitCode::kUsage,
          fmt::format("--data_claim '{}': {} is taken in a pod; choose another path, as /data", text, claim.second));
    if (!paths.insert(claim.second).second)
      return fail(ExitCode::kUsage,
                  fmt::format("--data_claim '{}': another claim is at {} already", text, claim.second));
  }
  return {};
}

std::string spec_lines(const cluster::SpecOptions& options, bool of_workers) {
  std::string out;
  if (of_workers) {
    if (options.max_workers) out += fmt::format("max_tasks = {}\n", *options.max_workers);
    if (options.min_workers) out += fmt::format("min_tasks = {}\n", *options.min_workers);
  } else {
    if (!options.servers.empty()) out += fmt::format("servers = \"{}\"\n", options.servers);
    if (options.start_grace) out += fmt::format("start_grace = {}\n", *options.start_grace);
  }
  return out;
}

}  // namespace

Result<ExitCode> launch_on_kubernetes(const LaunchFlags& flags) {
  if (flags.pod.image.empty())
    return fail(
        ExitCode::kUsage,
        "--kubernetes needs --image NAME: a container image with dtrain in it (packaging/Dockerfile makes one)");
  if (!flags.cluster.empty() || !flags.hostfile.empty() || flags.workers < 1)
    return fail(ExitCode::kUsage,
                "--kubernetes takes numbers of tasks: --workers N, at least 1, and --ps M; leave out "
                "--cluster and --hostfile");
  if (!flags.run.init.empty() || flags.run.resume)
    return fail(ExitCode::kUsage,
                "--init and --resume name files that pods do not see; a run in --out_claim goes on by itself");
  if (flags.sync || flags.sync_data || !flags.remote_dir.empty() || !flags.remote_dtrain.empty() ||
      !flags.only.empty() || !flags.log_dir.empty() || !flags.run.out.empty())
    return fail(ExitCode::kUsage,
                "--sync, --remote_…, --only, --log_dir and --out are of a launcher that starts tasks; pods "
                "write into --out_claim, and kubectl logs shows what they print");
  DTRAIN_TRY(check_names(flags.pod));
  if (flags.slurm.on) return fail(ExitCode::kUsage, "give --kubernetes or --slurm");
  DTRAIN_TRY(flags.slurm.only_with_slurm());
  RealFileSystem files;
  DTRAIN_TRY_ASSIGN(const auto run, node::RunDefinition::read(flags.run.run_file.file, flags.run.run_file.set, files));
  launch::KubernetesRun out;
  out.workers = flags.workers;
  out.ps = std::max(flags.ps, 0);
  out.name = launch::kubernetes_name(run.spec.name);
  out.name_space = flags.pod.name_space;
  out.image = flags.pod.image;
  out.run_file = config::effective_toml(run.root);
  out.cluster_options = spec_lines(flags.spec.options, false);
  out.worker_options = spec_lines(flags.spec.options, true);
  // Threads decide over bits, and a container sees all cores of its node.
  if (!run.spec.train.threads)
    out.flags = {"--set", fmt::format("train.threads={}", std::max(1, static_cast<int>(flags.pod.cpus)))};
  if (flags.run.allow_guests) out.flags.emplace_back("--allow_guests");
  if (flags.run.allow_put) out.flags.emplace_back("--allow_put");
  out.secret = to_hex(random_nonce());
  if (!flags.secret.file.empty()) {
    DTRAIN_TRY(flags.secret.read());  // it is one, and nobody else can read it
    DTRAIN_TRY_ASSIGN(out.secret,
                      under_code(ExitCode::kUsage, files.read_file(flags.secret.file, RunSecret::kLongest + 2)));
  }
  out.cpu = fmt::format("{:g}", flags.pod.cpus);
  DTRAIN_TRY_ASSIGN(const PodMemory memory, pod_memory(flags, run, out.workers, out.ps));
  out.worker_memory = memory.worker;
  out.ps_memory = memory.ps;
  out.out_claim = flags.pod.out_claim;
  out.storage = flags.pod.storage;
  for (const std::string& claim : flags.pod.data_claims) {
    DTRAIN_TRY_ASSIGN(auto parsed, claim_of(claim));
    out.data_claims.push_back(std::move(parsed));
  }
  DTRAIN_TRY_ASSIGN(const auto environment, task_environment(flags.environment));
  for (const std::string& entry : environment)
    out.environment.emplace_back(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
  if (flags.max_restarts > 0) out.restarts = flags.max_restarts;

  std::string data;
  for (const auto& file : run.data_files()) data += fmt::format("{}{}", data.empty() ? "" : ", ", file.path);
  if (!data.empty())
    fmt::print(stderr, "dtrain: note: pods read {}: in the image, or from a --data_claim CLAIM:/path\n", data);
  if (out.out_claim.empty() && out.ps != 1)
    fmt::print(stderr,
               "dtrain: note: without --out_claim CLAIM, which all pods can write to, a run whose server is lost "
               "begins anew{}\n",
               out.ps == 0 ? ", and its model is lost with the pod of worker 0" : "");
  fmt::print("{}", launch::kubernetes_manifests(out));
  return ExitCode::kDone;
}

}  // namespace dtrain::cmd
