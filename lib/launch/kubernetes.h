// A run as objects of Kubernetes, for kubectl: a ConfigMap with its files, a Secret, a headless Service that gives
// every pod a name, a StatefulSet of parameter servers, an Indexed Job of workers. For Kubernetes from 1.28 on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::launch {

struct KubernetesRun {
  std::string name;        // of all objects; see kubernetes_name
  std::string name_space;  // "": kubectl's
  std::string image;
  std::string run_file;  // the text, with what it includes
  int workers = 1, ps = 0;
  std::string cluster_options;     // further lines for the top of the cluster file, each with its end
  std::string worker_options;      // of [jobs.worker]
  std::vector<std::string> flags;  // of `dtrain run`, for every task
  std::vector<std::pair<std::string, std::string>> environment;
  std::string secret;                         // of the run
  std::string cpu, worker_memory, ps_memory;  // quantities, as "2", "1500Mi"
  std::string out_claim;                      // a claim that all tasks can write to; "": parameter servers get one each
  std::string storage;                        // the size of these
  std::vector<std::pair<std::string, std::string>> data_claims;  // claim, where it is mounted; read-only
  int restarts = 6;                                              // of all workers together
};

// Letters, digits and '-': what Kubernetes takes as a name.
std::string kubernetes_name(std::string_view run_name);

// YAML, document by document.
std::string kubernetes_manifests(const KubernetesRun& run);

}  // namespace dtrain::launch
