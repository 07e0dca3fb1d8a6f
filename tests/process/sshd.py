"""Hosts to reach by ssh on one machine: real sshds on loopback addresses, each with a home folder of its own, and an ssh
configuration in which they are node1, node2, … They end with the test, by their process ids.
"""
import os, random, shutil, signal, subprocess, time

SSHD = "/usr/sbin/sshd"


def possible():
    """Why there can be no ssh servers here; empty where there can."""
    for program in (SSHD, "ssh", "ssh-keygen"):
        if not shutil.which(program):
            return f"needs {program} (openssh-server, openssh-client)"
    return ""


class Hosts:
    """with Hosts(folder, 2) as hosts: hosts.config is for ssh -F; hosts.names are node1 and node2."""

    def __init__(self, folder, count, extra="", addresses=None, within=lambda i, words: words):
        """`addresses` of the hosts, else loopback ones; `within` gives the command line that runs another one on a host."""
        self.folder, self.names, self.extra = folder, [f"node{i + 1}" for i in range(count)], extra
        self.addresses = addresses or [f"127.0.0.{i + 2}" for i in range(count)]
        self.within = within
        self.homes = [os.path.join(folder, name) for name in self.names]
        self.config = os.path.join(folder, "ssh_config")
        self.servers, self.ports = [], []

    def address(self, i):
        return self.addresses[i]

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.servers:
            for pid in [*sessions(server.pid), server.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            server.wait()

    def _make(self):
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where sshd of root drops its rights
        os.makedirs(self.folder, exist_ok=True)
        keys = {}
        for name in ("user", "host"):
            keys[name] = os.path.join(self.folder, f"{name}_key")
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys[name]], check=True)
        authorized = os.path.join(self.folder, "authorized_keys")
        shutil.copy(keys["user"] + ".pub", authorized)
        os.chmod(authorized, 0o600)
        lines = []
        for i, home in enumerate(self.homes):
            os.makedirs(home, exist_ok=True)
            self.servers.append(None)
            self.ports.append(0)
            self.start(i)
            lines.append(f"Host {self.names[i]}\n  HostName {self.address(i)}\n  Port {self.ports[i]}\n")
        with open(self.config, "w") as f:
            f.write("".join(lines) + f"Host *\n  IdentityFile \"{keys['user']}\"\n  IdentitiesOnly yes\n"
                    f"  UserKnownHostsFile \"{self.folder}/known_hosts\"\n  GlobalKnownHostsFile /dev/null\n")

    def start(self, i, extra=""):
        """Starts the server of a host, again on its port where it had one."""
        for _ in range(50):
            port = self.ports[i] or random.randrange(20000, 32000)  # below those that the kernel gives away
            config = os.path.join(self.folder, f"sshd_config_{i}")
            with open(config, "w") as f:
                f.write(f"ListenAddress {self.address(i)}\nPort {port}\nHostKey {self.folder}/host_key\n"
                        f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
                        f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
                        f"PermitRootLogin yes\nMaxStartups 100\nUseDNS no\n"
                        f"{extra or self.extra or 'SetEnv HOME=' + self.homes[i]}\n")
            log = os.path.join(self.folder, f"sshd_{i}.log")
            with open(log, "w") as f:
                server = subprocess.Popen(self.within(i, [SSHD, "-D", "-e", "-f", config]), stdin=subprocess.DEVNULL,
                                          stdout=f, stderr=f)
            end = time.monotonic() + 20
            while server.poll() is None and time.monotonic() < end:
                with open(log) as f:
                    said = f.read()
                if f"Server listening on {self.address(i)} port {port}" in said:
                    self.servers[i], self.ports[i] = server, port
                    return
                if "Cannot bind any address" in said:
                    break
                time.sleep(0.01)  # until it listens
            server.kill()
            server.wait()
        raise AssertionError("sshd does not start: " + open(os.path.join(self.folder, f"sshd_{i}.log")).read())

    def stop(self, i, number=signal.SIGKILL):
        """Ends the server of a host and all its sessions' processes of sshd."""
        for pid in [*sessions(self.servers[i].pid), self.servers[i].pid]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        self.servers[i].wait()


def sessions(server):
    """The sshd processes below a server."""
    found, wave = [], [server]
    while wave:
        children = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            if int(rest.split()[1]) in wave and name == "sshd":
                children.append(int(pid))
        found += children
        wave = children
    return found
