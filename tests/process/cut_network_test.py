#!/usr/bin/env python3
"""A worker on another host, whose network fails for a while: a network namespace that is joined to this one by a pair of
virtual interfaces. Needs root and iproute2; skipped without."""
import os, shutil, signal, subprocess, unittest

import cluster

STEPS = 1200
FLAGS = ["--set", f"train.steps={STEPS}", "--set", "train.checkpoint_every=0", "--set", "train.log_every=1", "--set",
         "train.peer_timeout=4"]


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True)


class CutNetwork(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.skipTest("needs root and the command ip")
        self.space, self.here, self.there = f"dtrain{os.getpid()}", f"dth{os.getpid()}", f"dtt{os.getpid()}"
        if ip("netns", "add", self.space).returncode != 0:
            self.skipTest("this host makes no network namespaces")
        self.addCleanup(ip, "netns", "del", self.space)
        made = ip("link", "add", self.here, "type", "veth", "peer", "name", self.there, "netns", self.space)
        if made.returncode != 0:
            self.skipTest("this host makes no virtual interfaces: " + made.stderr)
        self.addCleanup(ip, "link", "del", self.here)
        net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.server_host = net + ".1"
        for words in (["addr", "add", net + ".1/24", "dev", self.here], ["link", "set", self.here, "up"],
                      ["-n", self.space, "addr", "add", net + ".2/24", "dev", self.there],
                      ["-n", self.space, "link", "set", self.there, "up"], ["-n", self.space, "link", "set", "lo", "up"]):
            done = ip(*words)
            self.assertEqual(done.returncode, 0, done.stderr)

    def start_elsewhere(self, *args):
        program = cluster.write(self.path("elsewhere.sh"), f'#!/bin/sh\nexec ip netns exec {self.space} {cluster.DTRAIN} "$@"\n')
        os.chmod(program, 0o755)
        process = cluster.Process([str(a) for a in args], self.dir, self.environment(), program=program)
        self.started.append(process)
        return process

    def test_joins_again_when_it_is_healed(self):
        want = self.train(*FLAGS, out="undisturbed")
        port = cluster.free_ports(1)[0]
        flags = ["--cluster_spec", f"ps|{self.server_host}:{port}", "--max_workers", 2, "--out", self.path("out"), *FLAGS]
        task = lambda job, index: ["run", self.run_toml, *flags, "--job_name", job, "--task_id", index]
        server, near = self.start(*task("ps", 0)), self.start(*task("worker", 0))
        self.wait_for_step(server, "out", 2)
        far = self.start_elsewhere(*task("worker", 1))
        server.says(r"/job:worker/task:1 computes from step \d+ on, one of 2 workers")
        near.signal(signal.SIGSTOP)  # so that the run is not over too early
        self.addCleanup(near.signal, signal.SIGCONT)
        ip("link", "set", self.here, "down")
        server.says(r"/job:worker/task:1 .*is lost .*nothing heard")
        far.says("joins the run again, if it still goes on")
        self.assertLess(self.steps("out")[-1], STEPS)
        ip("link", "set", self.here, "up")
        cluster.until(lambda: server.err.count("/job:worker/task:1 computes from step") == 2, lambda: server.err + far.err)
        near.signal(signal.SIGCONT)
        self.assert_all_done([server, far, near])
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.steps("out"), list(range(1, STEPS + 1)))


if __name__ == "__main__":
    unittest.main()
