"""A Slurm cluster of this host's own, in a folder: munged, slurmctld and a slurmd for each of its nodes, on ports that
are free when it starts, apart from any Slurm that the host may have. Nodes are named 127.0.0.2, 127.0.0.3, …, which are
names that every host resolves, and addresses that every host may listen at.
"""
import os, shutil, signal, socket, subprocess

from cluster import PATIENCE, free_port_range, free_ports, until, write

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue")


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing():
    """Why there can be no such cluster here; empty where there can."""
    if os.geteuid() != 0:
        return "slurmd starts tasks as root only"
    absent = [name for name in PROGRAMS if not program(name)]
    return f"not installed: {', '.join(absent)} (packages slurmctld, slurmd, slurm-client, munge)" if absent else ""


class SlurmCluster:
    """REQUIRES: not missing(). End it with stop(), whatever happens."""

    def __init__(self, folder, nodes=2, cpus=4):
        self.folder, self.nodes = folder, [f"127.0.0.{2 + i}" for i in range(nodes)]
        self.daemons = []  # of subprocess.Popen, in the order of their start
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
        for name in ("state", "spool", "log"):
            os.makedirs(os.path.join(folder, name))
        self.socket = os.path.join(folder, "munge.socket")
        key = os.path.join(folder, "munge.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(os.urandom(128))
        host = socket.gethostname().split(".")[0]
        ports = free_ports(1 + nodes)
        self.conf = write(os.path.join(folder, "slurm.conf"), "\n".join([
            "ClusterName=dtrain", f"SlurmctldHost={host}(127.0.0.1)", f"SlurmctldPort={ports[0]}",
            "SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", f"AuthInfo=socket={self.socket}",
            "CredType=cred/munge",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool/%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/slurmd-%n.pid",
            f"SlurmctldLogFile={folder}/log/slurmctld", f"SlurmdLogFile={folder}/log/slurmd-%n",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none", "SwitchType=switch/none", "MpiDefault=none",
            f"MpiParams=ports={free_port_range(40)}-", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
            "SlurmdParameters=config_overrides", "ReturnToService=2", "KillWait=5", "SchedulerParameters=batch_sched_delay=0",
            *[f"NodeName={node} NodeHostname={host} NodeAddr={node} Port={port} CPUs={cpus} State=UNKNOWN"
              for node, port in zip(self.nodes, ports[1:])],
            f"PartitionName=all Nodes={','.join(self.nodes)} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO", ""]))
        with open(self.conf, encoding="utf-8") as f:
            text = f.read()
        first = int(text.split("MpiParams=ports=")[1].split("-")[0])
        write(self.conf, text.replace(f"ports={first}-", f"ports={first}-{first + 39}"))
        try:
            self._begin("munged", "--foreground", "--force", "--key-file", key, "--socket", self.socket,
                        "--pid-file", f"{folder}/munged.pid", "--seed-file", f"{folder}/munged.seed",
                        "--log-file", f"{folder}/log/munged")
            until(lambda: os.path.exists(self.socket), lambda: "munged listens\n" + self.logs())
            self._begin("slurmctld", "-D", "-f", self.conf)
            for node in self.nodes:
                self._begin("slurmd", "-D", "-N", node, "-f", self.conf)
            until(self._all_idle, lambda: "all nodes are idle\n" + self.logs())
        except BaseException:
            self.stop()
            raise

    def _begin(self, name, *args):
        with open(os.path.join(self.folder, "log", f"{name}.out"), "ab") as out:
            self.daemons.append(subprocess.Popen([program(name), *args], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                                                 stdout=out, stderr=out, start_new_session=True))

    def environment(self):
        return {**os.environ, "SLURM_CONF": self.conf}

    def ask(self, name, *args):
        """What one of Slurm's commands prints."""
        return subprocess.run([program(name), *args], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE).stdout

    def _all_idle(self):
        for daemon in self.daemons:
            if daemon.poll() is not None:
                raise AssertionError(f"{daemon.args[0]} ended with {daemon.returncode}\n{self.logs()}")
        return self.ask("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(self.nodes)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(os.path.join(self.folder, "log"))):
            with open(os.path.join(self.folder, "log", name), errors="replace") as f:
                text += f"== {name}\n" + "".join(f.readlines()[-30:])
        return text

    def stop(self):
        """Jobs first, so that no task outlives its node; then the daemons, last begun first."""
        if len(self.daemons) > 1 and self.daemons[1].poll() is None:
            try:
                self.ask("scancel", "--user", "root", "--full")
                until(lambda: not self.ask("squeue", "-h").strip(), "no job is left", 30)
            except (AssertionError, subprocess.TimeoutExpired):
                pass  # what is left ends with its slurmd below, or is found by who looks for processes
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGTERM)
                try:
                    daemon.wait(15)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
        self.daemons = []
