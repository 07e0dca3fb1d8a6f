#!/usr/bin/env python3
"""What surrounds a process can be odd: descriptors that are closed, outputs that nobody reads, no memory, pipes for files."""
import json, os, signal, subprocess, unittest

from cluster import DTRAIN, ProcessTest, write

# A matrix product for which a processor's library takes memory of its own.
WIDE = """\
[data.train]
format = "synthetic"
samples = 1024

[train]
batch = 1024
micro_batch = 1024
threads = 1
steps = 1

[optimizer]
lr = 0.05

[network]
input = [1, 8, 8]
layers = [
  { type = "conv2d", filters = 256, kernel = 3, activation = "relu" },
  { type = "flatten" },
  { type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
"""


class Surroundings(ProcessTest):
    def shell(self, command, timeout=120, **kwargs):
        """Exit status and both outputs of a line for the shell, in which "$D" is the binary."""
        p = subprocess.run(["bash", "-c", command], cwd=self.dir, env=self.environment({"D": DTRAIN}), timeout=timeout,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, **kwargs)
        return p.returncode, p.stdout + p.stderr

    def test_closed_descriptors_are_not_given_to_files(self):
        want = self.train(out="open")
        for i, closed in enumerate(("2>&-", ">&- 2>&-", "<&- >&- 2>&-")):
            code, _ = self.shell(f'"$D" run run.toml --out closed{i} {closed}')
            self.assertEqual(code, 0, closed)
            self.assertEqual(self.model_hash(f"closed{i}"), want)
            with open(self.path(f"closed{i}", "metrics.jsonl"), encoding="utf-8") as f:
                for line in f:
                    json.loads(line)

    def test_a_launcher_with_closed_descriptors(self):
        want = self.train(out="open")
        code, _ = self.shell('"$D" launch run.toml --workers 2 --ps 1 --out closed <&- >&- 2>&-')
        self.assertEqual(code, 0)
        self.assertEqual(self.model_hash("closed"), want)

    def test_a_launcher_whose_output_nobody_reads_goes_on(self):
        code, _ = self.shell('set -o pipefail; "$D" launch run.toml --workers 2 --ps 1 --out piped 2>&1 | head -1')
        self.assertEqual(code, 0)
        self.assertEqual(self.model_hash("piped"), self.train(out="one"))

    def test_output_that_cannot_be_written_is_an_error(self):
        self.train(out="one")
        for command in ("inspect one --hash", "check run.toml", "check run.toml --dump_config", "--help"):
            code, out = self.shell(f'"$D" {command} >/dev/full')
            self.assertEqual(code, 2, command)
            self.assertIn("could not be written", out)

    def test_no_memory_is_said(self):
        code, out = self.shell('ulimit -v 700000; "$D" run run.toml --out small --set data.train.limit=600 '
                               "--set train.batch=1000000 --set train.micro_batch=1000000")
        self.assertEqual(code, 2, out)
        self.assertIn("out of memory", out)
        self.assertNotIn("bug", out)

    def test_no_memory_is_no_bug_wherever_it_ends(self):
        write(self.path("wide.toml"), WIDE)
        for limit in range(150_000, 280_000, 5_000):  # among them some at which a matrix product finds none
            code, out = self.shell(f'ulimit -v {limit}; "$D" run wide.toml --out wide{limit}')
            self.assertIn(code, (0, 2), out)
            self.assertNotIn("bug", out)

    def test_a_pipe_that_nobody_writes_to_is_no_run_file(self):
        os.mkfifo(self.path("pipe"))
        code, out = self.shell('"$D" check pipe', timeout=60)
        self.assertEqual(code, 2, out)
        code, out = self.shell('"$D" check <(cat run.toml) --set data.train.images=$PWD/images.idx '
                               "--set data.train.labels=$PWD/labels.idx")
        self.assertEqual(code, 0, out)

    def test_metrics_that_are_no_file(self):
        os.mkdir(self.path("odd"))
        os.mkfifo(self.path("odd", "metrics.jsonl"))
        code, out = self.shell('"$D" run run.toml --out odd', timeout=60)
        self.assertEqual(code, 2, out)

    def test_a_limit_on_file_size_is_a_failed_checkpoint(self):
        code, out = self.shell('ulimit -f 8; "$D" run run.toml --out limited')
        self.assertEqual(code, 5, out)
        self.assertEqual(self.checkpoints("limited"), [])
        self.assertEqual([n for n in os.listdir(self.path("limited", "checkpoints")) if n.startswith(".tmp")], [])

    def test_parameters_that_are_not_finite_never_become_a_model(self):
        code, out = self.shell('"$D" run run.toml --out wild --set train.checkpoint_every=1 --set \'optimizer.type="sgd"\' '
                               "--set optimizer.lr=3e38 --set optimizer.momentum=0.9 --set train.steps=3")
        self.assertEqual(code, 7, out)
        self.assertFalse(os.path.exists(self.path("wild", "model.safetensors")))

    def test_the_second_signal_ends_a_process_at_once(self):
        slow = self.start("run", self.run_toml, "--out", self.path("slow"), "--set", "train.steps=1000000")
        self.wait_for_step(slow, "slow", 5)
        slow.signal(signal.SIGSTOP)
        slow.signal(signal.SIGINT)
        slow.signal(signal.SIGTERM)  # both are waiting when it goes on
        slow.signal(signal.SIGCONT)
        self.assertEqual(slow.wait(20), 130)


if __name__ == "__main__":
    unittest.main()
