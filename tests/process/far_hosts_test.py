#!/usr/bin/env python3
"""dtrain launch over hosts with a network between them: sshds in network namespaces, whose links are cut, and who know
themselves by names of their own. Needs root and iproute2; skipped without."""
import os, shutil, signal, subprocess, unittest

import cluster, namespaces, sshd, ssh_test

WITHIN = ssh_test.WITHIN


class FarHosts(ssh_test.SshTest):
    """Host 0 has the launcher; node1 and node2 are hosts 1 and 2."""

    def setUp(self):
        why = sshd.possible() or namespaces.possible()
        if why:
            self.skipTest(why)
        cluster.ProcessTest.setUp(self)
        self.net = namespaces.Network("1gbit", 3)
        self.addCleanup(self.net.__exit__)
        self.net.__enter__()
        # ip netns exec puts these in the place of /etc/hosts.
        for i, name in enumerate(self.net.names):
            folder = f"/etc/netns/{name}"
            os.makedirs(folder)
            self.addCleanup(shutil.rmtree, folder)
            lines = ["127.0.0.1 localhost"]
            lines += [f"{self.net.address(k)} far{k}" for k in range(3) if k != i]
            lines.append(f"127.0.1.1 far{i}")  # as Debian's installer does
            cluster.write(folder + "/hosts", "\n".join(lines) + "\n")
        self.hosts = sshd.Hosts(self.path("hosts"), 2, addresses=[self.net.address(1), self.net.address(2)],
                                within=lambda i, words: self.net.command(i + 1, words))
        self.enterContext_(self.hosts)
        self.hostfile = cluster.write(self.path("hostfile"), "node[1-2] slots=2\n")

    def launch(self, *args, **kwargs):
        return super().launch(*args, within=self.net.command(0, []), **kwargs)

    def cut(self, host):
        subprocess.run(["ip", "-n", self.net.names[host], "link", "set", "eth0", "down"], check=True)

    def test_the_same_bits(self):
        want = self.train(out="one")
        for n, args in enumerate((["--workers", 3, "--ps", 1], ["--workers", 4])):
            self.launched(*args, out=f"out{n}")
            self.assertEqual(self.model_hash(f"out{n}"), want)

    def test_a_name_that_is_loopback_on_its_own_host(self):
        hostfile = cluster.write(self.path("h"), "node1 address=far1\nnode2 address=far2\n")
        p = self.launched("--workers", 2, hostfile=hostfile, expect=2)
        self.assertRegex(p.err, "node1: far1 is 127.0.1.1 on this host itself, where no other host can reach its tasks.*"
                                "address=.*/etc/hosts")
        self.assertIn("node2: far2 is 127.0.1.1", p.err)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_an_address_of_another_host(self):
        hostfile = cluster.write(self.path("h"), f"node1 address={self.net.address(2)}\n")
        p = self.launched("--workers", 1, hostfile=hostfile, expect=2)
        self.assertRegex(p.err, rf"node1: worker/0: .*{self.net.address(2)}")

    def test_the_network_of_a_host_is_cut(self):
        for host, tasks in ((2, 2), (1, 2)):
            with self.subTest(host=host):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                p = self.launch("--workers", 3, "--ps", 1, *ssh_test.LONG)
                self.wait_for_step(p, "out", 2)
                self.assertEqual(len(self.tasks()), 4)
                self.cut(host)
                cluster.until(lambda: len(self.tasks_on(host)) == 0, lambda: f"no task on host {host}: {self.tasks()}", WITHIN)
                if host == 2:  # it had workers alone, the run goes on
                    p.says(r"worker/1 on node2: lost: the connection to node2 ended: nothing was heard for 4 s; the run goes on")
                    p.signal(signal.SIGINT)
                    self.assertEqual(p.wait(), 130, p.err)
                else:
                    self.assertEqual(p.wait(), 4, p.err)
                    self.assertRegex(p.err, "first failure: ps/0 on node1, lost: the connection to node1 ended")
                cluster.until(lambda: not self.tasks(), lambda: f"no task is left: {self.tasks()}", WITHIN)
                self.heal(host)

    def heal(self, host):
        subprocess.run(["ip", "-n", self.net.names[host], "link", "set", "eth0", "up"], check=True)

    def tasks_on(self, host):
        pids = subprocess.run(["ip", "netns", "pids", self.net.names[host]], capture_output=True, text=True).stdout.split()
        return [pid for pid in self.tasks() if str(pid) in pids]


if __name__ == "__main__":
    unittest.main()
