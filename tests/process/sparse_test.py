#!/usr/bin/env python3
"""Tables of which servers keep only the rows that are used: one SHA-256 of the model for every shape of cluster, whatever
dies on the way, and memory that is that of the rows, not of the tables."""
import os, re, signal, subprocess, unittest

import cluster

# K = 5 micro-batches; two tables of different widths, one of them for two columns, and an ordinary network behind.
RUN = """\
name = "clicks"
seed = 5

[data.train]
format = "clicks"
samples = 4000
numbers = 2
categories = [300, 5000, 100000]

[data.test]
format = "clicks"
samples = 300
first = 4000
numbers = 2
categories = [300, 5000, 100000]

[train]
batch = 40
micro_batch = 8
threads = 1
steps = 40
log_every = 5
checkpoint_every = 0

[optimizer]
type = "adam"
lr = 0.01

[network]
input = [5]
layers = [
  { name = "numbers", type = "slice", end = 2 },
  { name = "first", type = "slice", inputs = ["input"], begin = 2, extent = 1 },
  { name = "few", type = "embedding", vocab = 300, dim = 4, sparse = true },
  { name = "f", type = "flatten" },
  { name = "others", type = "slice", inputs = ["input"], begin = 3 },
  { name = "many", type = "embedding", vocab = 100000, dim = 6, sparse = true },
  { name = "m", type = "flatten" },
  { name = "wide", type = "embedding", inputs = ["others"], vocab = 100000, dim = 1, sparse = true, params.weight.init = "zeros" },
  { name = "w", type = "flatten" },
  { name = "all", type = "concat", inputs = ["numbers", "f", "m", "w"] },
  { name = "norm", type = "batch_norm" },
  { name = "fc1", type = "linear", units = 12, activation = "relu" },
  { name = "fc2", type = "linear", units = 2 },
  { type = "softmax_cross_entropy" },
]
"""
STEPS = 400  # enough to be in the middle of when something happens
LONG = ["--set", f"train.steps={STEPS}", "--set", "train.checkpoint_every=50", "--set", "train.log_every=1"]


class SparseTest(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.run_toml = cluster.write(self.path("run.toml"), RUN)


class Identity(SparseTest):
    def test_one_hash_for_every_cluster(self):
        want = self.train(out="one")
        for workers, ps in ((1, 1), (2, 2), (3, 1), (4, 3), (2, 0), (3, 0), (6, 2)):
            with self.subTest(workers=workers, ps=ps):
                flags = ["--workers", workers] + (["--ps", ps] if ps else [])
                self.assertEqual(self.train(*flags, out=f"c{workers}-{ps}"), want)
                self.assertEqual(self.events(f"c{workers}-{ps}", "eval"), self.events("one", "eval"))

    def test_resumed_on_another_number_of_servers(self):
        want = self.train(out="whole")
        half = ["--set", "train.steps=20"]
        self.train("--workers", 2, "--ps", 3, *half, out="parts")
        self.assertEqual(self.train("--workers", 3, "--ps", 2, "--resume", out="parts"), want)
        self.train(*half, out="other")
        self.assertEqual(self.train("--workers", 2, "--resume", out="other"), want)

    def test_model_and_checkpoint_say_the_same(self):
        self.train("--workers", 2, "--ps", 2, out="out")
        model, checkpoint = self.path("out", "model.safetensors"), self.path("out", "checkpoints", "step-00000040")
        hashes = {re.search("^model (.*)$", self.dtrain("inspect", "--hash", path).out, re.M)[1]
                  for path in (model, checkpoint)}
        self.assertEqual(len(hashes), 1)
        listed = self.dtrain("inspect", model).out
        self.assertRegex(listed, r"many\.weight\.rows +I64 +\[\d+\]")
        self.assertRegex(listed, r"many\.weight\.values +F32 +\[\d+, 6\]")
        self.assertRegex(self.dtrain("inspect", checkpoint).out, r"many\.weight .*sparse: \d+ rows kept")
        answers = [self.dtrain("eval", self.run_toml, "--json", "--model", path).out for path in (model, checkpoint)]
        self.assertEqual(*answers)
        self.assertAlmostEqual(float(re.search(r'"loss": ([\d.]+)', answers[0])[1]),
                               self.events("out", "eval")[-1]["loss"], places=6)
        rows = [self.dtrain("predict", self.run_toml, "--model", path).out for path in (model, checkpoint)]
        self.assertEqual(*rows)
        self.assertEqual(len(rows[0].splitlines()), 301)

    def test_check_says_how_large_tables_are(self):
        said = self.dtrain("check", self.run_toml, "--ps", 2, "--workers", 2).out
        self.assertRegex(said, r"sparse table many\.weight: 100000 rows of 6, .* a step uses at most 80")
        self.assertIn("rows of sparse tables", said)


class Faults(SparseTest):
    def test_a_killed_worker_changes_nothing(self):
        want = self.train(*LONG, out="undisturbed")
        for ps in (1, 2):
            out = f"out{ps}"
            launcher = self.start("launch", self.run_toml, "--workers", 3, "--ps", ps, *LONG, "--out", self.path(out))
            self.wait_for_step(launcher, out, 5)
            os.kill(self.task_pid("worker", 1), signal.SIGKILL)
            launcher.says("job:worker/task:1 .*is lost")
            self.assertLess(self.steps(out)[-1], STEPS, "the run was over before the fault")
            self.assertEqual(launcher.wait(), 0, launcher.err)
            self.assertEqual(self.model_hash(out), want)

    def test_a_killed_server_and_a_resume(self):
        want = self.train(*LONG, out="undisturbed")
        launcher = self.start("launch", self.run_toml, "--workers", 2, "--ps", 2, *LONG, "--out", self.path("out"))
        cluster.until(lambda: self.checkpoints("out"), lambda: f"a checkpoint\n{launcher.err}")
        os.kill(self.task_pid("ps", 1), signal.SIGKILL)
        self.assertEqual(launcher.wait(), 4, launcher.err)
        self.dtrain("launch", self.run_toml, "--workers", 3, "--ps", 1, *LONG, "--out", self.path("out"), "--resume")
        self.assertEqual(self.model_hash("out"), want)


class Guests(SparseTest):
    def test_a_guest_reads_what_is_no_table(self):
        spec, at = self.cluster(workers=1, ps=2)
        tasks = [self.start_task(spec, job, i, "--set", "train.steps=1000000", "--set", "train.log_every=1")
                 for job, i in (("ps", 0), ("ps", 1), ("worker", 0))]
        self.wait_for_step(tasks[0], "out", 2)
        ps = ["--ps", f"127.0.0.1:{at['ps', 0]}"]
        self.assertRegex(self.dtrain("params", "ls", *ps).out, r"(?m)^many\.weight +\[100000, 6\] +sparse")
        for command in (["stat"], ["stat", "--gradient"], ["get", "*", "-o", "all.safetensors"]):
            read = self.dtrain("params", *command, *ps)
            self.assertIn("left out: 'many.weight' is a sparse table", read.err)
        self.assertIn("fc1.weight", self.dtrain("inspect", "all.safetensors").out)
        self.assertIn("'few.weight' is a sparse table", self.dtrain("params", "stat", "few.weight", *ps, expect=2).err)
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (300, 4), }".ljust(117) + b"\n"
        cluster.write(self.path("few.npy"), b"\x93NUMPY\x01\x00\x76\x00" + header + bytes(4 * 1200))
        self.assertIn("it is a sparse table", self.dtrain("params", "put", "few.weight", "few.npy", *ps, expect=2).err)
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)


class Memory(SparseTest):
    def test_a_table_that_no_machine_holds(self):
        # 2·10^9 rows of 16 numbers are 128 GB, and three times that with Adam's state; each process gets 2 GiB of
        # addresses.
        huge = ["--set", "data.train.numbers=0", "--set", "data.train.categories=[2000000000]", "--set",
                "data.test.numbers=0", "--set", "data.test.categories=[2000000000]", "--set", "network.input=[1]", "--set",
                'network.layers=[{name="t",type="embedding",vocab=2000000000,dim=16,sparse=true},{type="flatten"},'
                '{name="fc",type="linear",units=2},{type="softmax_cross_entropy"}]']
        self.assertRegex(self.dtrain("check", self.run_toml, *huge).out, r"2000000000 rows of 16, 119\.2 GiB")
        limited = f"ulimit -v {1 << 21}; exec "  # KiB of addresses
        want = None
        for flags in ("run", "launch --workers 2 --ps 2"):
            out = self.path("huge-" + flags.split()[0])
            command = " ".join([cluster.DTRAIN, flags.split()[0], self.run_toml, *flags.split()[1:],
                                *(f"'{x}'" for x in huge), "--out", out])
            done = subprocess.run(["bash", "-c", limited + command], capture_output=True, text=True, cwd=self.dir,
                                  timeout=cluster.PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            hashed = self.dtrain("inspect", "--hash", os.path.join(out, "model.safetensors")).out
            self.assertEqual(hashed, want or hashed)
            want = hashed


if __name__ == "__main__":
    unittest.main()
