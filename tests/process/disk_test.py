#!/usr/bin/env python3
"""Servers that do not see the coordinator's disk: in a mount namespace of their own the run's folder is an empty one."""
import os, subprocess, unittest

from cluster import DTRAIN, ProcessTest

UNSHARE = ["unshare", "--mount", "--map-root-user"]


def namespaces():
    return subprocess.run([*UNSHARE, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True).returncode == 0


@unittest.skipUnless(namespaces(), "no mount namespaces here")
class Disk(ProcessTest):
    def start_elsewhere(self, spec, job, index, out):
        args = ["run", self.run_toml, "--cluster_spec", spec, "--job_name", job, "--task_id", str(index), "--out", self.path(out)]
        hide = [*UNSHARE, "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', self.path(out)]
        process = subprocess.Popen([*hide, DTRAIN, *args], cwd=self.dir, env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        return process

    def test_shards_of_servers_on_other_disks_are_sent(self):
        want = self.train(out="one")
        os.mkdir(self.path("far"))
        spec, _ = self.cluster(workers=1, ps=3)
        far = [self.start_elsewhere(spec, "ps", i, "far") for i in (1, 2)]
        near = [self.start_task(spec, job, 0, "--set", "train.checkpoint_every=10", out="far") for job in ("ps", "worker")]
        self.assert_all_done(near)
        for process in far:
            out, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, out)
        self.assertEqual(self.model_hash("far"), want)
        newest = self.checkpoints("far")[-1]
        self.assertEqual(sorted(os.listdir(self.path("far", "checkpoints", newest))),
                         ["manifest.json"] + [f"server-{i}.safetensors" for i in range(3)])
        # And that checkpoint is whole: it is gone on from, on another shape of cluster.
        self.dtrain("launch", self.run_toml, "--workers", "2", "--out", self.path("far"), "--resume", "--set", "train.steps=45")
        self.dtrain("run", self.run_toml, "--out", self.path("longer"), "--set", "train.steps=45")
        self.assertEqual(self.model_hash("far"), self.model_hash("longer"))


if __name__ == "__main__":
    unittest.main()
