// The flags of `launch`, for all that it can start a run on.
#pragma once

#include <string>
#include <vector>

#include "cluster_flags.h"
#include "launch/ssh.h"
#include "launch_slurm.h"
#include "run_flags.h"
#include "secret_flags.h"

namespace dtrain::cmd {

// Of pods of Kubernetes.
struct PodFlags {
  std::string image, name_space, memory, storage = "10Gi", out_claim;
  double cpus = 1;
  std::vector<std::string> data_claims;
};

struct LaunchFlags {
  RunFlags run;
  SecretFlags secret;
  std::string cluster, hostfile;
  SpecFlags spec;
  int workers = -1, ps = -1;  // −1: not given
  // Of hosts that are reached by ssh.
  launch::SshOptions ssh;
  bool sync = false, sync_data = false;
  std::string remote_dir, remote_dtrain;
  std::vector<std::string> environment;
  SlurmFlags slurm;
  // Of what is shown and kept.
  std::vector<std::string> only;
  std::string log_dir;
  int max_restarts = 0;
  bool kubernetes = false;
  PodFlags pod;

  void declare(CLI::App& app) {
    run.declare(app);
    secret.declare(app);
    spec.declare(app);
    slurm.declare(app);
    const auto tasks = CLI::Range(0, 1024);
    add_flag_value(app, "--workers", workers, "number of workers; with --hostfile default: as many as there are slots",
                   {"--num_workers"})
        ->check(tasks);
    add_flag_value(app, "--ps", ps, "number of parameter servers; 0, the default, puts a server beside every worker",
                   {"--num_servers"})
        ->check(tasks);
    add_flag_value(app, "--cluster", cluster, "cluster spec (TOML); its hosts are reached by ssh")->type_name("FILE");
    add_flag_value(app, "--hostfile", hostfile,
                   "hosts to start the tasks on, by ssh: 'host[:ssh_port] [slots=N]' a line, node[01-16] for many",
                   {"--host_file"})
        ->type_name("FILE");
    add_switch(
        app, "--sync", sync,
        "first copy the run file, what it includes and --init to the hosts, and dtrain where it is missing there");
    add_switch(app, "--sync_data", sync_data, "as --sync, and the data files that the run file names");
    add_flag_value(app, "--remote_dir", remote_dir, "folder on the hosts to run in; default: the same as here")
        ->type_name("DIR");
    add_flag_value(app, "--remote_dtrain", remote_dtrain,
                   "path of dtrain on the hosts; default: the same as here, or what is in their PATH")
        ->type_name("PATH");
    add_flag_value(app, "--ssh", ssh.program, "the ssh to use")->type_name("PROGRAM")->capture_default_str();
    add_flag_value(app, "--ssh_config", ssh.config, "configuration file for ssh (its -F)")->type_name("FILE");
    app.add_option(spellings("--ssh_option"), ssh.options, "option for ssh (its -o), as Port=2222; repeatable")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    app.add_option("--env", environment, "environment variable for every task, NAME=VALUE or NAME of here; repeatable")
        ->allow_extra_args(false)
        ->type_name("NAME[=VALUE]");
    app.add_option("--only", only,
                   "show only what these tasks print: worker/3, ps, 'worker/1*'; repeatable, or by commas")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->type_name("TASK");
    add_flag_value(app, "--log_dir", log_dir, "folder for a log file a task; default: logs/ in --out; 'none': no logs")
        ->type_name("DIR");
    add_flag_value(app, "--max_restarts", max_restarts, "start what failed again, at most so many times")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    declare_kubernetes(app);
  }

 private:
  void declare_kubernetes(CLI::App& app) {
    constexpr const char* kGroup = "Kubernetes";
    add_switch(app, "--kubernetes", kubernetes, "start nothing; print the run as objects for kubectl apply -f -")
        ->group(kGroup);
    add_flag_value(app, "--image", pod.image, "container image with dtrain in it")->type_name("NAME")->group(kGroup);
    add_flag_value(app, "--namespace", pod.name_space, "namespace of the objects; default: kubectl's")
        ->type_name("NAME")
        ->group(kGroup);
    add_flag_value(app, "--cpus", pod.cpus, "cores that a pod asks for; also its threads, where the run file says none")
        ->check(number_from(0.1, 1024))
        ->capture_default_str()
        ->group(kGroup);
    add_flag_value(app, "--memory", pod.memory,
                   "memory of a pod, as 4Gi; default: what dtrain check says, and a reserve")
        ->type_name("QUANTITY")
        ->group(kGroup);
    add_flag_value(
        app, "--out_claim", pod.out_claim,
        "PersistentVolumeClaim to write into, shared by all pods; default: one of its own a parameter server")
        ->type_name("CLAIM")
        ->group(kGroup);
    add_flag_value(app, "--storage", pod.storage, "size of these")
        ->type_name("QUANTITY")
        ->capture_default_str()
        ->group(kGroup);
    app.add_option(spellings("--data_claim"), pod.data_claims,
                   "PersistentVolumeClaim with data, and the path at which pods see it; repeatable")
        ->allow_extra_args(false)
        ->type_name("CLAIM:/PATH")
        ->group(kGroup);
  }
};

}  // namespace dtrain::cmd
