#!/usr/bin/env python3
"""A network whose layers lie on several tasks: the hash of the unsplit run, over sockets; and what cannot be split."""
import os, re, signal, unittest

import cluster

# Batch norm takes over the sum, whose shortcut crosses the cut; dropout and the norm over all gradients are there too.
NETWORK = """\
[network]
input = [1, 12, 12]
layers = [
  { name = "conv1", type = "conv2d", filters = 6, kernel = 3, pad = 1, bias = false },
  { name = "norm1", type = "batch_norm", activation = "relu" },
  { name = "body", type = "residual", repeat = 2 },
  { name = "pool1", type = "max_pool2d", kernel = 2 },
  { name = "flat", type = "flatten" },
  { name = "drop", type = "dropout", rate = 0.4 },
  { name = "dense1", type = "linear", units = 24, activation = "tanh" },
  { name = "dense2", type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]

[network.block.residual]
layers = [
  { name = "c", type = "conv2d", filters = 6, kernel = 3, pad = 1, bias = false },
  { name = "n", type = "batch_norm" },
  { name = "sum", type = "add", inputs = ["n", "input"], activation = "relu" },
]
"""
RUN = cluster.RUN[:cluster.RUN.index("[network]")] + NETWORK


def on_tasks(text, **tasks):
    """The run file with a device on the named layers."""
    for name, task in tasks.items():
        before = f'name = "{name}", '
        assert before in text
        device = task if isinstance(task, str) else f"/job:worker/task:{task}"
        text = text.replace(before, before + f'device = "{device}", ', 1)
    return text


class StagesTest(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.run_toml = cluster.write(self.path("run.toml"), RUN)

    def place(self, **tasks):
        cluster.write(self.run_toml, on_tasks(RUN, **tasks))

    def data_test(self):
        return [a for key in ("format=idx", "images=" + self.path("images.idx"), "labels=" + self.path("labels.idx"))
                for a in ("--set", "data.test." + key)]


class Identity(StagesTest):
    def test_two_and_three_tasks_make_the_bits_of_one(self):
        for micro in (8, 40, 10):  # K = 5, 1, 4
            flags = ["--set", f"train.micro_batch={micro}", "--set", "train.steps=20"]
            self.place()
            want = self.train(*flags, out=f"one{micro}")
            for tasks in (dict(body=1), dict(body=1, pool1=2), dict(norm1=1, dense1=0)):
                workers = max(tasks.values()) + 1
                self.place(**tasks)
                for ps in (0, 1, 2):
                    with self.subTest(micro=micro, tasks=tasks, ps=ps):
                        shape = ["--workers", workers] + (["--ps", ps] if ps else [])
                        out = f"s{micro}-{ps}-" + "-".join(tasks)
                        self.assertEqual(self.train(*shape, *flags, out=out), want)

    def test_one_process_ignores_the_tasks_and_says_so(self):
        want = self.train(out="plain")
        self.place(body=1, pool1=2)
        p = self.dtrain("run", self.run_toml, "--out", self.path("one"))
        self.assertIn("one process computes all layers", p.err)
        self.assertEqual(self.model_hash("one"), want)

    def test_evaluations_and_metrics_are_the_same(self):
        flags = [*self.data_test(), "--set", "train.eval_every=7", "--set", "train.steps=20"]
        want = self.train(*flags, out="one")
        self.place(body=1, dense1=2)
        self.assertEqual(self.train("--workers", 3, "--ps", 1, *flags, out="split"), want)
        self.assertEqual([e["step"] for e in self.events("one", "eval")], [7, 14, 20])
        self.assertEqual(self.events("one", "eval"), self.events("split", "eval"), "to the last digit")

        def numbers(out):
            return [{k: v for k, v in row.items() if k != "samples_per_s"} for row in self.rows(out) if "event" not in row]
        self.assertEqual(numbers("one"), numbers("split"))

    def test_values_of_several_pieces_and_shared_weights(self):
        # What crosses takes more than one message; the weights of a are needed on both tasks.
        layers = ('network.layers=[{type="flatten"},{name="a",type="linear",units=144,activation="relu"},'
                  '{name="w",type="linear",units=8400,%sactivation="relu"},'
                  '{name="b",type="linear",units=144,%sactivation="tanh"},'
                  '{name="c",type="linear",units=144,params={weight={share="a.weight"}}},'
                  '{type="linear",units=10},{type="softmax_cross_entropy"}]')
        flags = ["--set", "train.steps=4", "--set", "network.block={}", "--set"]
        want = self.train(*flags, layers % ("", ""), out="one")
        device = 'device="/job:worker/task:1",'
        self.assertEqual(self.train("--workers", 2, *flags, layers % (device, ""), out="w"), want)
        self.assertEqual(self.train("--workers", 2, "--ps", 2, *flags, layers % ("", device), out="b"), want)

    def test_a_checkpoint_goes_on_in_any_shape(self):
        flags = ["--set", "train.checkpoint_every=5"]
        want = self.train(*flags, "--set", "train.steps=20", out="one")
        self.place(body=1)
        self.train("--workers", 2, "--ps", 1, *flags, "--set", "train.steps=10", out="some")
        self.place(pool1=1)
        self.train("--workers", 2, *flags, "--set", "train.steps=15", "--resume", out="some")
        self.place()
        self.assertEqual(self.train(*flags, "--set", "train.steps=20", "--resume", out="some"), want)


class Faults(StagesTest):
    LONG = ["--set", "train.steps=5000", "--set", "train.checkpoint_every=100", "--set", "train.log_every=1"]

    def killed(self, job, index, *shape):
        self.place(body=1, dense1=2)
        launcher = self.start("launch", self.run_toml, "--workers", 3, *shape, *self.LONG, "--out", self.path("out"))
        self.wait_for_step(launcher, "out", 5)
        os.kill(self.task_pid(job, index), signal.SIGKILL)
        self.assertEqual(launcher.wait(), 4, launcher.err)
        return launcher.err

    def test_a_killed_stage_ends_the_run(self):
        for index in (0, 1, 2):
            with self.subTest(index=index):
                said = self.killed("worker", index, "--ps", 1)
                self.assertRegex(said, rf"job:worker/task:{index} .*computes a part of the network, is lost at step")
                self.assertNotIn("goes on without it", said)
                self.assert_no_process_left(10)
                os.rename(self.path("out"), self.path(f"out{index}"))

    def test_with_the_servers_beside_the_workers(self):
        self.killed("worker", 2)
        self.assert_no_process_left(10)

    def test_an_interrupted_run_goes_on(self):
        short = ["--set", "train.steps=300", "--set", "train.checkpoint_every=1000", "--set", "train.log_every=1"]
        want = self.train(*short, out="one")
        self.place(body=1)
        launcher = self.start("launch", self.run_toml, "--workers", 2, "--ps", 1, *short, "--out", self.path("out"))
        self.wait_for_step(launcher, "out", 5)
        launcher.signal(signal.SIGINT)
        self.assertEqual(launcher.wait(), 130, launcher.err)
        self.assertEqual(self.train("--workers", 2, *short, "--resume", out="out"), want)


class Refused(StagesTest):
    def refused(self, *says, workers=2, flags=(), **tasks):
        self.place(**tasks)
        p = self.dtrain("launch", self.run_toml, "--workers", workers, *flags, "--out", self.path("out"), expect=2,
                        deadline=60)
        for word in says:
            self.assertIn(word, p.err)
        self.assertRegex(p.err, r"run\.toml:[1-9][0-9]*:[1-9][0-9]*: ")
        self.assertFalse(os.path.exists(self.path("out")), "a folder was made")

    def test_a_task_that_does_not_exist(self):
        self.refused("layer 'dense1': this cluster has no task /job:worker/task:2; it has worker 0-1", body=1, dense1=2)
        self.refused("no task /job:wroker/task:1 (did you mean 'worker'?)", body="/job:wroker/task:1")

    def test_no_task_at_all(self):
        for device in ("worker:1", "/job:worker/tsk:1", "/job:worker:1"):
            self.refused(f"'{device}' names no task (did you mean '/job:worker/task:1'?)", body=device)
        self.refused("'gpu:0' names no task", conv1="gpu:0")

    def test_a_server_computes_nothing(self):
        self.refused("/job:ps/task:0 holds parameters and computes nothing", flags=["--ps", 1], body="/job:ps/task:0")

    def test_a_worker_without_a_layer(self):
        self.refused("/job:worker/task:2 computes no layer", workers=3, body=1)

    def test_other_modes(self):
        self.refused("for consistency = 'sync' only, not for 'async'", body=1, flags=["--set", "train.consistency=async"])
        self.refused("compression", body=1, flags=["--set", "train.compression=fp16", "--set", "optimizer.clip_norm=1e9"])
        self.refused("'speculation'", body=1, flags=["--set", "train.speculation=true"])

    def test_a_cluster_that_workers_may_join(self):
        self.refused("not for a cluster that workers may join and leave", body=1, flags=["--ps", 1, "--max_workers", 3])

    def test_lbfgs(self):
        text = re.sub(r"(?s)\[optimizer\].*?(?=\n\[)", '[optimizer]\ntype = "lbfgs"\n', RUN)
        run = cluster.write(self.path("lbfgs.toml"), on_tasks(text, body=1))
        p = self.dtrain("launch", run, "--workers", 2, "--set", "train.batch=600", "--set", "train.micro_batch=60",
                        "--out", self.path("out"), expect=2)
        self.assertRegex(p.err, r"lbfgs\.toml:[1-9][0-9]*:[1-9][0-9]*: error: layers .* not for the optimizer lbfgs")
        self.assertFalse(os.path.exists(self.path("out")), "a folder was made")

    def test_check_says_so_before_anything_else(self):
        self.place(body=1)
        for flags, says in ((["--workers", 3], "/job:worker/task:2 computes no layer"),
                            (["--workers", 2, "--set", "train.compression=fp16"], "compression"),
                            (["--workers", 2, "--ps", 1, "--max_workers", 3], "join and leave")):
            p = self.dtrain("check", self.run_toml, *flags, expect=2)
            self.assertIn(says, p.err)
            self.assertEqual(p.out, "")


class Check(StagesTest):
    def test_only_what_is_of_a_split_network(self):
        self.place(body=1)
        out = self.dtrain("check", self.run_toml, "--workers", 2, "--ps", 1).out
        self.assertRegex(out, r"(?m)^/job:worker/task:1 .* to /job:worker/task:0$")
        for word in ("others as well", "memory of a worker", "to and from other tasks"):  # of workers that compute all
            self.assertNotIn(word, out)


if __name__ == "__main__":
    unittest.main()
