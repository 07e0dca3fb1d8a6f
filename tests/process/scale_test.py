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
        self.refuses("--bandwidth", "fast", says="25Gbps")
        self.refuses("--bandwidth", "0Gbps", says="nothing passes")
        self.refuses("--latency", "-1us", says="50us")
        self.refuses("--compute", "soon", says="0.45 (seconds)")
        self.refuses("--compute", "0", says="takes some time")
        self.refuses("--workers", "1,2,3", "--ps", "1,2", says="one for each size")
        self.refuses("--workers", "0", says="--workers")
        self.refuses("--set", "train.consistency=async", says="cannot be simulated")
        self.refuses("--set", "train.compression=fp16", says="cannot be simulated")
        self.refuses("--host_cost", "sums=1GB/s", says="receive, send, add, update")

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
