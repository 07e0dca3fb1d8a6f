#!/usr/bin/env python3
"""dtrain simulate: what it refuses and what it prints. shaped_links.py compares it with real runs."""
import json, unittest

from cluster import ProcessTest, write

MLP = """\
name = "wide"
seed = 1

[data.train]
format = "synthetic"
samples = 512
classes = 10

[train]
batch = 16
micro_batch = 16
threads = 1
steps = 100
log_every = 1
checkpoint_every = 0

[optimizer]
type = "sgd"
lr = 0.01
momentum = 0.9

[network]
input = [256]
layers = [
  { name = "dense1", type = "linear", units = 1024, activation = "relu" },
  { name = "dense2", type = "linear", units = 1024, activation = "relu" },
  { name = "dense3", type = "linear", units = 1024, activation = "relu" },
  { name = "dense4", type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
"""

SPARSE = """\
[data.train]
format = "clicks"
samples = 64
categories = [100]

[train]
batch = 16
steps = 10

[optimizer]
lr = 0.01

[network]
input = [1]
layers = [
  { name = "table", type = "embedding", vocab = 100, dim = 4, sparse = true },
  { type = "flatten" },
  { type = "linear", units = 2 },
  { type = "softmax_cross_entropy" },
]
"""


class Simulate(ProcessTest):
    def setUp(self):
        super().setUp()
        self.mlp = write(self.path("wide.toml"), MLP)

    def simulate(self, *args, run=None):
        return json.loads(self.dtrain("simulate", run or self.mlp, "--json", *args).out)

    def refuses(self, *args, says):
        process = self.dtrain("simulate", self.mlp, *args, expect=2)
        self.assertIn(says, process.err)

    def test_what_cannot_be_is_refused(self):
        self.refuses("--bandwidth", "fast", says="expected one such as 10Gbps")
        self.refuses("--bandwidth", "0Gbps", says="--bandwidth: '0Gbps' is no bandwidth: it must be more than 0")
        self.refuses("--bandwidth", "1e-320bps", says="at least 1 bit/s")
        self.refuses("--bandwidth", "1bps", "--compute", "1ms", "--steps", "40", says="more than 36 years")
        self.refuses("--latency", "-1us", says="--latency: '-1us' is no time; write it as 50us")
        self.refuses("--latency", "50", says="--latency: '50' has no unit")
        self.refuses("--latency", "1e9s", says="--latency: '1e9s' is more than a day")
        self.refuses("--compute", "soon", says="--compute: 'soon' is no time; write it as 50us, 1.5ms or 0.45 (seconds)")
        self.refuses("--compute", "0", says="takes some time")
        self.refuses("--compute", "1ns", "--set", "train.micro_batch=4", says="takes some time")
        self.refuses("--workers", "1,2,3", "--ps", "1,2", says="one for each size")
        self.refuses("--workers", "0", says="--workers")
        self.refuses("--set", "train.consistency=async", says="cannot be simulated")
        self.refuses("--set", "train.compression=fp16", says="cannot be simulated")
        self.refuses("--host_cost", "sums=1GB/s", says="receive, send, add, update")
        self.refuses("--host_cost", "add=0GB/s", says="--host_cost add: '0GB/s'")
        self.refuses("--host_cost", "message", says="--host_cost message: ''")

    def test_networks_that_lie_elsewhere_are_refused(self):
        split = write(self.path("split.toml"), MLP.replace('{ name = "dense4",',
                                                           '{ device = "/job:worker/task:0", name = "dense4",'))
        self.assertIn("take the keys 'device' out", self.dtrain("simulate", split, expect=2).err)
        sparse = write(self.path("sparse.toml"), SPARSE)
        err = self.dtrain("simulate", sparse, "--compute", "1ms", expect=2).err
        self.assertIn("'table.weight' is a sparse table", err)

    def test_a_sweep(self):
        out = self.simulate("--compute", "20ms", "--workers", "1,8,64", "--ps", "1,8,64", "--bandwidth", "10Gbps")
        self.assertEqual([size["workers"] for size in out["sizes"]], [1, 8, 64])
        for size in out["sizes"]:
            self.assertAlmostEqual(size["efficiency"], out["compute_ms"] / size["step_ms"], places=6)
            self.assertGreaterEqual(size["step_ms"], 20)
        crowded = self.simulate("--compute", "20ms", "--workers", "64", "--ps", "1", "--bandwidth", "1Gbps",
                                "--host_cost", "receive=100GB/s", "--host_cost", "send=100GB/s")["sizes"][0]
        bound = 64 * out["parameter_mb"] / 125 * 1e3  # ms; both directions are as full
        self.assertGreater(crowded["step_ms"], bound)
        self.assertLess(crowded["step_ms"], 2.2 * bound)
        self.assertIn("server link", crowded["bottleneck"])
        stale = self.simulate("--compute", "20ms", "--workers", "4", "--set", 'train.consistency={type="stale",bound=2}')
        self.assertGreaterEqual(stale["sizes"][0]["step_ms"], 20)
        text = self.dtrain("simulate", self.mlp, "--compute", "20ms", "--workers", "2").out
        self.assertIn("speed-up", text)


if __name__ == "__main__":
    unittest.main()
