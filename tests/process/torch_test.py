#!/usr/bin/env python3
"""The model file in PyTorch: it loads into the same network there, which gives the same test accuracy and loss. Skipped
where this Python and the system's have no torch, or the data set is not installed."""
import json, os, subprocess, sys, unittest

import cluster

DATA = "/usr/share/datasets/fashion-mnist"
RUN = f"""
include = ["{cluster.ROOT}/configs/networks/lenet.toml"]
name = "lenet"
seed = 5
[data.train]
format = "idx"
images = "{DATA}/train-images-idx3-ubyte.gz"
labels = "{DATA}/train-labels-idx1-ubyte.gz"
limit = 6000
[data.test]
format = "idx"
images = "{DATA}/t10k-images-idx3-ubyte.gz"
labels = "{DATA}/t10k-labels-idx1-ubyte.gz"
[train]
batch = 64
epochs = 1
[optimizer]
type = "sgd"
lr = 0.05
momentum = 0.9
"""

# Runs where torch is: prints loss and accuracy as JSON.
IN_TORCH = """
import gzip, json, struct, sys
import torch

model_file, data = sys.argv[1:]
with open(model_file, "rb") as f:
    length, = struct.unpack("<Q", f.read(8))
    header = json.loads(f.read(length))
    body = bytearray(f.read())
header.pop("__metadata__", None)
state = {name: torch.frombuffer(body[slice(*t["data_offsets"])], dtype=torch.float32).reshape(t["shape"]).clone()
         for name, t in header.items()}

class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 20, 5), torch.nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = torch.nn.Linear(800, 500), torch.nn.Linear(500, 10)
    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = torch.nn.functional.max_pool2d(conv(x), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))

torch.set_num_threads(1)
net = LeNet().eval()
net.load_state_dict(state, strict=True)
def read(name, header):
    with gzip.open(f"{data}/{name}.gz") as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)
images = read("t10k-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).float() / 255
labels = read("t10k-labels-idx1-ubyte", 8).long()
with torch.no_grad():
    logits = torch.cat([net(part) for part in images.split(500)])
print(json.dumps({"accuracy": (logits.argmax(1) == labels).float().mean().item(),
                  "loss": torch.nn.functional.cross_entropy(logits, labels).item()}))
"""


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([python, "-c", "import torch"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=cluster.PATIENCE)
            return python
        except (OSError, subprocess.SubprocessError):
            pass
    return None


class Torch(cluster.ProcessTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.isdir(DATA):
            raise unittest.SkipTest(f"{DATA} is not installed")
        cls.python = python_with_torch()
        if not cls.python:
            raise unittest.SkipTest("no Python with torch")

    def test_lenet(self):
        run = cluster.write(self.path("lenet.toml"), RUN)
        self.dtrain("launch", run, "--workers", 2, "--ps", 1, "--out", self.path("out"), deadline=300)
        model = self.path("out", "model.safetensors")
        ours = json.loads(self.dtrain("eval", run, "--model", model, "--json", deadline=300).out)
        p = subprocess.run([self.python, "-c", IN_TORCH, model, DATA], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=300)
        self.assertEqual(p.returncode, 0, p.stderr)
        theirs = json.loads(p.stdout)
        self.assertEqual(ours["samples"], 10000)
        self.assertGreater(ours["accuracy"], 0.6, "it has learnt something")
        self.assertAlmostEqual(ours["accuracy"], theirs["accuracy"], places=4)
        self.assertAlmostEqual(ours["loss"], theirs["loss"], places=4)
        # What the run itself said at its end.
        self.assertAlmostEqual(self.events("out", "end")[0]["test_accuracy"], ours["accuracy"], places=4)


if __name__ == "__main__":
    unittest.main()
