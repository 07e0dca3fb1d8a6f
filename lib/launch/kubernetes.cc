#include "launch/kubernetes.h"

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/exit_code.h"
#include "launch/yaml.h"

namespace dtrain::launch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPort = 2500;
constexpr const char* kFiles = "/etc/dtrain/run";      // where the ConfigMap is seen
constexpr const char* kSecret = "/etc/dtrain/secret";  // where the Secret is
constexpr const char* kOut = "/var/lib/dtrain";        // where the run writes
constexpr int kGrace = 30;                             // seconds for a checkpoint, when a pod is ended

class Manifests {
 public:
  explicit Manifests(const KubernetesRun& run) : run_(run) {}

  std::string text() const {
    std::vector<Json> objects{secret(), config_map(), service()};
    if (run_.ps > 0) objects.push_back(stateful_set());
    objects.push_back(job());
    std::string out;
    for (const Json& object : objects) out += (out.empty() ? "" : "---\n") + to_yaml(object);
    return out;
  }

 private:
  Json labels() const { return {{"app.kubernetes.io/name", "dtrain"}, {"app.kubernetes.io/instance", run_.name}}; }
  Json labels_of(const char* job) const {
    Json all = labels();
    all["app.kubernetes.io/component"] = job;
    return all;
  }
  Json metadata(const std::string& name) const {
    Json out = {{"name", name}};
    if (!run_.name_space.empty()) out["namespace"] = run_.name_space;
    out["labels"] = labels();
    return out;
  }

  Json secret() const {
    return {{"apiVersion", "v1"},
            {"kind", "Secret"},
            {"metadata", metadata(run_.name)},
            {"type", "Opaque"},
            {"stringData", {{"secret", run_.secret}}}};
  }

  // Pods are called <name>-<job>-<index>, and found as that within the service.
  std::string cluster_file() const {
    std::string out = "name = \"" + run_.name + "\"\n" + run_.cluster_options;
    for (const auto& [job, count] : {std::pair("ps", run_.ps), {"worker", run_.workers}}) {
      if (count == 0) continue;
      out += fmt::format("\n[jobs.{}]\ntasks = [\n", job);
      for (int i = 0; i < count; ++i) out += fmt::format("  \"{0}-{1}-{2}.{0}:{3}\",\n", run_.name, job, i, kPort);
      out += "]\n";
      if (std::string_view(job) == "worker") out += run_.worker_options;
    }
    return out;
  }

  Json config_map() const {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", metadata(run_.name)},
            {"data", {{"run.toml", run_.run_file}, {"cluster.toml", cluster_file()}}}};
  }

  // Names lead to pods from the moment they have an address: tasks wait for each other themselves.
  Json service() const {
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", metadata(run_.name)},
            {"spec",
             {{"clusterIP", "None"},
              {"publishNotReadyAddresses", true},
              {"selector", labels()},
              {"ports", Json::array({{{"name", "dtrain"}, {"port", kPort}}})}}}};
  }

  Json container(const char* job, const char* index, const std::string& memory) const {
    Json args = {"run",           std::string(kFiles) + "/run.toml",
                 "--cluster",     std::string(kFiles) + "/cluster.toml",
                 "--job_name",    job,
                 "--task_id",     fmt::format("$({})", index),
                 "--listen",      "$(POD_IP)",
                 "--out",         std::string(kOut) + "/" + run_.name,
                 "--secret_file", std::string(kSecret) + "/secret",
                 "--auto_resume", "--progress",
                 "lines"};
    // A StatefulSet starts again whoever ends, and a run ends once.
    if (std::string_view(job) == "ps") args.push_back("--stay");
    for (const std::string& flag : run_.flags) args.push_back(flag);
    // A pod's own name may not lead anywhere yet when it starts.
    Json environment =
        Json::array({{{"name", "POD_IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}}});
    if (std::string_view(index) != "JOB_COMPLETION_INDEX")
      environment.push_back(
          {{"name", index},
           {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.labels['apps.kubernetes.io/pod-index']"}}}}}});
    else
      environment.push_back(
          {{"name", index},
           {"valueFrom",
            {{"fieldRef", {{"fieldPath", "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}}}});
    for (const auto& [name, value] : run_.environment) environment.push_back({{"name", name}, {"value", value}});
    Json mounts = Json::array({{{"name", "run"}, {"mountPath", kFiles}, {"readOnly", true}},
                               {{"name", "secret"}, {"mountPath", kSecret}, {"readOnly", true}},
                               {{"name", "out"}, {"mountPath", kOut}}});
    for (size_t i = 0; i < run_.data_claims.size(); ++i)
      mounts.push_back(
          {{"name", fmt::format("data{}", i)}, {"mountPath", run_.data_claims[i].second}, {"readOnly", true}});
    return {{"name", "dtrain"},
            {"image", run_.image},
            {"command", {"dtrain"}},
            {"args", args},
            {"env", environment},
            {"ports", Json::array({{{"name", "dtrain"}, {"containerPort", kPort}}})},
            // It is ready when others can reach it. Whether it gets on is its own affair: every wait has a deadline.
            {"startupProbe", {{"tcpSocket", {{"port", "dtrain"}}}, {"periodSeconds", 2}, {"failureThreshold", 150}}},
            {"readinessProbe", {{"tcpSocket", {{"port", "dtrain"}}}, {"periodSeconds", 30}}},
            {"resources", {{"requests", {{"cpu", run_.cpu}, {"memory", memory}}}, {"limits", {{"memory", memory}}}}},
            {"securityContext",
             {{"allowPrivilegeEscalation", false},
              {"readOnlyRootFilesystem", true},
              {"capabilities", {{"drop", {"ALL"}}}}}},
            {"volumeMounts", mounts}};
  }

  Json pod(const char* job, const char* index, const std::string& memory, bool claims_out) const {
    Json volumes = Json::array({{{"name", "run"}, {"configMap", {{"name", run_.name}}}},
                                {{"name", "secret"}, {"secret", {{"secretName", run_.name}, {"defaultMode", 0440}}}}});
    if (!run_.out_claim.empty())
      volumes.push_back({{"name", "out"}, {"persistentVolumeClaim", {{"claimName", run_.out_claim}}}});
    else if (!claims_out)
      volumes.push_back({{"name", "out"}, {"emptyDir", Json::object()}});
    for (size_t i = 0; i < run_.data_claims.size(); ++i)
      volumes.push_back({{"name", fmt::format("data{}", i)},
                         {"persistentVolumeClaim", {{"claimName", run_.data_claims[i].first}, {"readOnly", true}}}});
    constexpr int kUser = 65532;
    return {{"metadata", {{"labels", labels_of(job)}}},
            {"spec",
             {{"subdomain", run_.name},
              {"terminationGracePeriodSeconds", kGrace},
              {"securityContext",
               {{"runAsNonRoot", true},
                {"runAsUser", kUser},
                {"runAsGroup", kUser},
                {"fsGroup", kUser},
                {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
              {"containers", Json::array({container(job, index, memory)})},
              {"volumes", volumes}}}};
  }

  Json stateful_set() const {
    const bool claims = run_.out_claim.empty();
    Json out = {{"apiVersion", "apps/v1"},
                {"kind", "StatefulSet"},
                {"metadata", metadata(run_.name + "-ps")},
                {"spec",
                 {{"serviceName", run_.name},
                  {"replicas", run_.ps},
                  {"podManagementPolicy", "Parallel"},
                  {"selector", {{"matchLabels", labels_of("ps")}}},
                  {"template", pod("ps", "POD_INDEX", run_.ps_memory, claims)}}}};
    if (claims)
      out["spec"]["volumeClaimTemplates"] = Json::array(
          {{{"metadata", {{"name", "out"}}},
            {"spec",
             {{"accessModes", {"ReadWriteOnce"}}, {"resources", {{"requests", {{"storage", run_.storage}}}}}}}}});
    return out;
  }

  static Json on_codes(const char* action, std::vector<ExitCode> codes) {
    Json values = Json::array();
    for (ExitCode code : codes) values.push_back(static_cast<int>(code));
    return {{"action", action}, {"onExitCodes", {{"containerName", "dtrain"}, {"operator", "In"}, {"values", values}}}};
  }

  Json job() const {
    Json worker = pod("worker", "JOB_COMPLETION_INDEX", run_.worker_memory, false);
    worker["spec"]["restartPolicy"] = "Never";  // a pod failure policy asks for it; the Job makes new pods
    return {{"apiVersion", "batch/v1"},
            {"kind", "Job"},
            {"metadata", metadata(run_.name + "-worker")},
            {"spec",
             {{"completionMode", "Indexed"},
              {"completions", run_.workers},
              {"parallelism", run_.workers},
              {"backoffLimit", run_.restarts},
              // Another try mends neither a configuration nor data nor a network that diverges; a pod that was moved
              // away has not failed.
              {"podFailurePolicy",
               {{"rules",
                 Json::array({{{"action", "Ignore"},
                               {"onPodConditions", Json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}},
                              on_codes("FailJob", {ExitCode::kUsage, ExitCode::kData, ExitCode::kCheckpoint,
                                                   ExitCode::kAuthentication, ExitCode::kNotFinite}),
                              on_codes("Count", {ExitCode::kBug, ExitCode::kPeerLost})})}}},
              {"template", worker}}}};
  }

  const KubernetesRun& run_;
};

}  // namespace

std::string kubernetes_name(std::string_view run_name) {
  constexpr size_t kLongest = 40;  // with what is put behind it, within the 63 of a label
  std::string out;
  for (char c : run_name.substr(0, kLongest)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (is_alnum(c))
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  // A Service's name begins with a letter.
  return out.empty() ? "run" : is_letter(out.front()) ? out : "run-" + out;
}

std::string kubernetes_manifests(const KubernetesRun& run) { return Manifests(run).text(); }

}  // namespace dtrain::launch
