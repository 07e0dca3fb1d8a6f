#!/usr/bin/env python3
"""Parameters that are frozen, shared, or trained at another rate, in whole runs."""
import json, os, struct, unittest

import cluster

LAYERS = """\
layers = [
  { type = "flatten" },
  { name = "front", type = "linear", units = 24, activation = "tanh", params = { weight.frozen = true, bias.frozen = true } },
  { name = "slow", type = "linear", units = 24, activation = "tanh", params = { weight = { init = "orthogonal", lr_mult = 0 }, bias.decay_mult = 0 } },
  { name = "twin", type = "linear", units = 24, activation = "tanh" },
  { name = "other", type = "linear", units = 24, bias = false, params.weight.share = "twin.weight" },
  { name = "dense", type = "linear", units = 10, params.weight.init = { type = "truncated_normal", std = 0.1 } },
  { type = "softmax_cross_entropy" },
]
"""
RUN = cluster.RUN[:cluster.RUN.index("layers = [")].replace("lr = 0.002", "lr = 0.01") + LAYERS


def tensors(path):
    """Name to the bytes of each tensor of a safetensors file."""
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    return {name: raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in header.items() if name != "__metadata__"}


class Params(cluster.ProcessTest):
    def model(self, out):
        return tensors(self.path(f"{out}/model.safetensors"))

    def test_a_run_on_any_cluster(self):
        run = cluster.write(self.path("run.toml"), RUN)
        self.dtrain("run", run, "--out", self.path("one"))
        self.dtrain("launch", run, "--workers", 2, "--ps", 1, "--out", self.path("several"))
        one = self.model("one")
        self.assertEqual(one, self.model("several"))
        self.assertEqual(sorted(one), ["dense.bias", "dense.weight", "front.bias", "front.weight", "slow.bias",
                                       "slow.weight", "twin.bias", "twin.weight"])
        # One step is enough for everything that is trained to move.
        self.dtrain("run", run, "--out", self.path("first"), "--set", "train.steps=1")
        moved = {name for name, value in self.model("first").items() if value != one[name]}
        self.assertEqual(moved, {"dense.bias", "dense.weight", "slow.bias", "twin.bias", "twin.weight"})
        rows = [r for r in self.rows("one") if "event" not in r]
        self.assertLess(rows[-1]["loss"], rows[0]["loss"] - 0.2, "it learns")

    def test_a_resume_gives_the_same_bits(self):
        run = cluster.write(self.path("run.toml"), RUN)
        self.dtrain("run", run, "--out", self.path("whole"))
        self.dtrain("run", run, "--out", self.path("parts"), "--set", "train.steps=20")
        self.dtrain("run", run, "--out", self.path("parts"), "--resume")
        self.assertEqual(self.model("whole"), self.model("parts"))

    def test_a_model_gives_the_frozen_values(self):
        source = cluster.write(self.path("source.toml"), RUN.replace("seed = 11", "seed = 12"))
        self.dtrain("run", source, "--out", self.path("source"), "--set", "train.steps=1")
        run = cluster.write(self.path("run.toml"), RUN)
        self.dtrain("run", run, "--out", self.path("out"), "--init", self.path("source/model.safetensors"), "--set",
                    "train.steps=2")
        for name in ("front.weight", "front.bias", "slow.weight"):
            self.assertEqual(self.model("out")[name], self.model("source")[name], name)
        self.assertNotEqual(self.model("out")["twin.weight"], self.model("source")["twin.weight"])

    def test_check_says_what_is_special(self):
        out = self.dtrain("check", cluster.write(self.path("run.toml"), RUN)).out
        for line in ("front.weight: frozen, 3456 elements", "front.bias: frozen, 24 elements",
                     "slow.weight: learning rate times 0, weight decay times 1",
                     "slow.bias: learning rate times 1, weight decay times 0", "other: shares twin.weight"):
            self.assertIn(line + "\n", out)
        self.assertIn(f"\n{2 * (24 * 24 + 24) + 250} trainable parameters", out)


if __name__ == "__main__":
    unittest.main()
