#!/usr/bin/env python3
"""Compressed training in real processes: it learns, it says what it gives up, it outlives a worker."""
import signal
import unittest

import cluster

METHODS = ["fp16", "bf16", "1bit", "2bit", '{type="topk",ratio=0.05}', '{type="dgc",ratio=0.05,warmup=10}']
SGD = ["--set", 'optimizer={type="sgd",lr=0.02,momentum=0.9,weight_decay=0.0005}']


class Compression(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        # dgc clips for itself, the others are to do without.
        self.run_toml = cluster.write(self.path("run.toml"), cluster.RUN.replace("clip_norm = 1.0\n", ""))

    def losses(self, out):
        return [row["loss"] for row in self.rows(out) if "event" not in row]

    def learn(self, out, *args):
        command = "launch" if "--workers" in args else "run"
        said = self.dtrain(command, self.run_toml, "--out", self.path(out), *SGD, *args).err
        losses = self.losses(out)
        self.assertLess(losses[-1], 0.8 * losses[0], out)
        return said

    def test_every_method_learns(self):
        for i, method in enumerate(METHODS):
            with self.subTest(method=method):
                said = self.learn(f"out{i}", "--workers", 2, "--ps", 1, "--set", f"train.compression={method}")
                self.assertIn("not reproducible to the bit: with train.compression", said)

    def test_one_process_computes_what_one_worker_does(self):
        flags = ["--set", "train.compression=2bit"]
        self.learn("one", *flags)
        self.learn("two", *flags, "--workers", 1, "--ps", 1)
        self.assertEqual(self.model_hash("one"), self.model_hash("two"))

    def test_pulls_too(self):
        for method in ("2bit", "1bit", "bf16"):
            with self.subTest(method=method):
                flags = ["--set", f"train.compression={method}", "--set", f"train.compress_pulls={method}"]
                self.learn(f"ps-{method}", *flags, "--workers", 2, "--ps", 1)
                self.learn(f"beside-{method}", *flags, "--workers", 2)

    def test_a_worker_dies(self):
        spec, _ = self.cluster(2, 1)
        flags = [*SGD, "--set", "train.steps=300", "--set", "train.compression=2bit", "--set",
                 "train.compress_pulls=2bit"]
        ps = self.start_task(spec, "ps", 0, *flags)
        workers = [self.start_task(spec, "worker", i, *flags) for i in range(2)]
        self.wait_for_step(ps, "out", 20)
        workers[1].signal(signal.SIGKILL)
        self.assert_all_done([ps, workers[0]])
        losses = self.losses("out")
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_goes_on_from_a_checkpoint(self):
        flags = ["--set", "train.compression=2bit", "--set", "train.checkpoint_every=20"]
        self.learn("out", *flags, "--set", "train.steps=40", "--workers", 2)
        self.dtrain("launch", self.run_toml, "--out", self.path("out"), *SGD, *flags, "--set", "train.steps=60",
                    "--workers", 2, "--resume")
        self.assertEqual(self.steps("out")[-1], 60)

    def test_what_cannot_be_is_refused(self):
        for flags, reason in ((["train.compression=2bit", "train.reproducible=true"], "'reproducible'"),
                              (["train.compression=2bits"], "did you mean '2bit'"),
                              (["train.compression={type=\"2bit\",threshold=0}"], "threshold"),
                              (["train.compression=dgc"], "'dgc'"),
                              (["train.compress_pulls=2bit", "train.consistency=async"], "'compress_pulls'")):
            words = [w for f in flags for w in ("--set", f)]
            refused = self.dtrain("run", self.run_toml, "--out", self.path("out"), *words, expect=2)
            self.assertIn(reason, refused.err)


if __name__ == "__main__":
    unittest.main()
