"""Hosts on one machine: network namespaces on a switch, each with a link that is shaped in both directions. For root only.

    with Network("200mbit", 3) as net: net.command(0, [...]) is run on host 0, which has the address net.address(0)
"""
import os, shutil, subprocess


def possible():
    """Why there can be no namespaces here; empty where there can."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "needs ip and tc (iproute2)"
    name = f"dtrain-{os.getpid()}-try"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return "no network namespaces here"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return ""


class Network:
    _made = 0

    def __init__(self, rate, hosts):
        Network._made += 1
        self.names = [f"dtrain-{os.getpid()}-{Network._made}-{i}" for i in range(hosts)]
        self.switch = f"dtrain-{os.getpid()}-{Network._made}-switch"
        self.rate = rate

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def command(self, host, words):
        return ["ip", "netns", "exec", self.names[host], *words]

    def __enter__(self):
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def _make(self):
        def run(*words):
            subprocess.run(words, check=True, capture_output=True)
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            run("ip", "-n", name, "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            run("ip", "-n", self.switch, "link", "set", f"port{i}", "master", "bridge")
            for space, device in ((name, "eth0"), (self.switch, f"port{i}")):
                run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", self.rate, "burst", "128kb", "limit",
                    "8mb")
                run("ip", "-n", space, "link", "set", device, "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
