#!/usr/bin/env python3
"""What a run prints and writes, and the ways to say what it should do: flags, environment, overrides."""
import json, os, pty, re, threading, unittest, xml.etree.ElementTree

import cluster

TEST_DATA = """
[data.test]
format = "idx"
images = "images.idx"
labels = "labels.idx"
limit = 100
"""


class Metrics(cluster.ProcessTest):
    def test_rows(self):
        run = cluster.write(self.path("run.toml"), cluster.RUN + TEST_DATA)
        self.dtrain("run", run, "--out", self.path("out"), "--set", "train.checkpoint_every=20")
        rows = self.rows("out")
        steps = [r for r in rows if "event" not in r]
        self.assertEqual([r["step"] for r in steps], list(range(5, 41, 5)))
        for row in steps:
            self.assertEqual(set(row), {"step", "epoch", "loss", "accuracy", "lr", "samples_per_s"})
            self.assertAlmostEqual(row["epoch"], row["step"] * 40 / 600, places=3)
            self.assertEqual(row["lr"], 0.002)
            self.assertGreater(row["samples_per_s"], 0)
        self.assertLess(steps[-1]["loss"], steps[0]["loss"] - 0.2, "it learns")
        self.assertEqual(rows[0]["event"], "begin")
        self.assertEqual({k: rows[0][k] for k in ("steps", "micro_batches", "threads")},
                         {"steps": 40, "micro_batches": 5, "threads": 1})
        self.assertEqual([e["step"] for e in self.events("out", "eval")], [15, 30, 40], "each epoch and at the end")
        for e in self.events("out", "eval"):
            self.assertEqual(e["samples"], 100)
            self.assertEqual(e["accuracy"], round(e["accuracy"] * 100) / 100)
        self.assertEqual([e["step"] for e in self.events("out", "checkpoint")], [20, 40])
        self.assertEqual(rows[-1]["event"], "end")
        self.assertEqual(rows[-1]["test_accuracy"], self.events("out", "eval")[-1]["accuracy"])

    def test_schedule_is_seen(self):
        run = cluster.write(self.path("run.toml"), cluster.RUN + '[schedule]\ntype = "step"\nevery = 10\ngamma = 0.5\n')
        self.dtrain("launch", run, "--workers", 2, "--ps", 1, "--out", self.path("out"))
        rates = {r["step"]: r["lr"] for r in self.rows("out") if "event" not in r}
        self.assertEqual([rates[s] for s in (5, 10, 15, 20, 25)], [0.002, 0.002, 0.001, 0.001, 0.0005])

    def test_eval_agrees(self):
        run = cluster.write(self.path("run.toml"), cluster.RUN + TEST_DATA)
        self.dtrain("launch", run, "--workers", 2, "--ps", 1, "--out", self.path("out"))
        said = self.events("out", "eval")[-1]
        for model in ("out/model.safetensors", "out", "out/checkpoints/step-00000040"):
            for flags in ([], ["--batch", "7"]):
                got = json.loads(self.dtrain("eval", run, "--model", self.path(model), "--json", *flags).out)
                self.assertEqual(got["samples"], 100)
                self.assertEqual(got["accuracy"], said["accuracy"])
                self.assertAlmostEqual(got["loss"], said["loss"], places=4)
        got = json.loads(self.dtrain("eval", run, "--model", self.path("out"), "--data", "train", "--json").out)
        self.assertEqual(got["samples"], 600)
        p = self.dtrain("eval", run, "--model", self.path("out"))
        self.assertRegex(p.out, rf"^loss \d\.\d{{4}}, accuracy {said['accuracy']:.4f} over 100 samples\n$")
        self.assertEqual(self.dtrain("eval", run, "--model", self.path("nowhere"), expect=5).out, "")


class Lines(cluster.ProcessTest):
    def assert_plain(self, text):
        self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f]", "nothing but lines")
        self.assertTrue(text.endswith("\n"))

    def test_plain_where_there_is_no_terminal(self):
        alone = self.dtrain("run", self.run_toml, "--out", self.path("one"))
        many = self.dtrain("launch", self.run_toml, "--workers", 2, "--ps", 1, "--out", self.path("many"))
        for p in (alone, many):
            self.assertEqual(p.out, "", "standard output is for results")
            self.assert_plain(p.err)
            self.assertRegex(p.err, r"(?m)^(\[ps/0\] )?epoch 2\.67/2\.67  step 40/40  loss \d+\.\d{4}  \d+ samples/s  ")
            self.assertRegex(p.err, r"done: 40 steps, .*model [0-9a-f]{64}")
        for line in many.err.splitlines():
            self.assertRegex(line, r"^\[(ps/0|worker/[01]|launch)\] ", "each line names its task")

    def test_progress(self):
        never = self.dtrain("run", self.run_toml, "--out", self.path("never"), "--progress", "never").err
        self.assertNotIn("step 40/40", never)
        always = self.dtrain("run", self.run_toml, "--out", self.path("always"), "--progress", "always").err
        self.assertIn("\r", always)
        self.assertIn("step 40/40", always)
        self.dtrain("run", self.run_toml, "--out", self.path("x"), "--progress", "sometimes", expect=2)

    def on_terminal(self, *args, env=None):
        """Standard error as a terminal gets it."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = self.start(*args, stderr=slave, env=env)
        os.close(slave)
        text = bytearray()

        def read():
            while True:
                try:
                    chunk = os.read(master, 65536)
                except OSError:  # the other side is closed
                    return
                if not chunk:
                    return
                text.extend(chunk)
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        self.assertEqual(process.wait(), 0, text)
        reader.join(10)
        return text.decode()

    def test_bar_on_a_terminal(self):
        for n, args in enumerate((["run"], ["launch", "--workers", "2", "--ps", "1"])):
            text = self.on_terminal(*args, self.run_toml, "--out", self.path(f"out{n}"), env={"TERM": "xterm"})
            self.assertIn("\r", text.replace("\r\n", "\n"), "the line is rewritten")
            self.assertIn("━", text)
            self.assertIn("\x1b[2K", text)
            self.assertIn("step 40/40", text)
            self.assertRegex(text.replace("\r\n", "\n").splitlines()[-1], r"done: 40 steps")

    def test_no_colour(self):
        for n, args in enumerate((["run"], ["launch", "--workers", "2"])):
            text = self.on_terminal(*args, self.run_toml, "--out", self.path(f"out{n}"), env={"NO_COLOR": "1", "TERM": "xterm"})
            self.assertIn("━", text)
            self.assertNotRegex(text, "\x1b\\[[0-9;]*m")


class Words(cluster.ProcessTest):
    def test_version(self):
        p = self.dtrain("--version")
        self.assertRegex(p.out, r"^dtrain \d+\.\d+\.\d+\n")
        self.assertEqual(p.err, "")

    def test_help(self):
        p = self.dtrain("--help")
        self.assertEqual(p.err, "")
        for word in ("run", "launch", "check", "eval", "inspect", "benchmark", "Exit codes", "--version", "report"):
            self.assertIn(word, p.out)
        for command in ("run", "launch", "check", "eval", "inspect", "benchmark"):
            p = self.dtrain(command, "--help")
            self.assertEqual(p.err, "")
            self.assertIn("--help", p.out)
            self.assertNotIn("--listen_fd", p.out)

    def test_both_spellings(self):
        for n, flags in enumerate((["--num_workers", "2", "--num-servers", "1"], ["--num-workers=2", "--num_servers=1"])):
            self.dtrain("launch", self.run_toml, *flags, "--out", self.path(f"out{n}"))
            self.assertEqual(self.events(f"out{n}", "begin")[0]["tasks"], "2 workers, 1 ps")
        spec, _ = self.cluster(workers=1, ps=1)
        self.assert_all_done([
            self.start("run", self.run_toml, "--cluster-spec", spec, "--job-name", "ps", "--task-index", "0", "--out", self.path("o")),
            self.start("run", self.run_toml, "--cluster_spec=" + spec, "--job_name=worker", "--task_index=0")])

    def test_environment(self):
        self.dtrain("launch", self.run_toml, env={"DTRAIN_WORKERS": "2", "DTRAIN_PS": "1", "DTRAIN_OUT": self.path("env")})
        self.assertEqual(self.events("env", "begin")[0]["tasks"], "2 workers, 1 ps")
        self.dtrain("launch", self.run_toml, "--workers", 1, "--out", self.path("flag"), "--ps", 2,
                    env={"DTRAIN_WORKERS": "2", "DTRAIN_PS": "1", "DTRAIN_OUT": self.path("env")})
        self.assertEqual(self.events("flag", "begin")[0]["tasks"], "1 worker, 2 ps")
        p = self.dtrain("launch", self.run_toml, "--out", self.path("x"), env={"DTRAIN_WORKERS": "two"}, expect=2)
        self.assertIn("two", p.err)

    def test_environment_of_a_task(self):
        spec, _ = self.cluster(workers=1, ps=1)
        env = {"DTRAIN_CLUSTER_SPEC": spec, "DTRAIN_TASK_ID": "0", "DTRAIN_OUT": self.path("out")}
        self.assert_all_done([self.start("run", self.run_toml, env={**env, "DTRAIN_JOB_NAME": job}) for job in ("ps", "worker")])
        self.assertEqual(self.events("out", "begin")[0]["tasks"], "1 worker, 1 ps")

    def test_precedence(self):
        cluster.write(self.path("net.toml"), "[train]\nlog_every = 3\nsteps = 7\n")
        run = cluster.write(self.path("run.toml"), 'include = ["net.toml"]\n' + cluster.RUN.replace("log_every = 5\n", ""))
        self.dtrain("run", run, "--out", self.path("out"))
        self.assertEqual(self.steps("out")[-2:], [39, 40], "steps of the file, log_every of what it includes")
        self.dtrain("run", run, "--out", self.path("set"), "--set", "train.log_every=2", "--set", "train.log_every=4")
        self.assertEqual(self.steps("set")[0], 4, "--set wins, the last one")


class Check(cluster.ProcessTest):
    def test_tables(self):
        out = self.dtrain("check", self.run_toml, "--workers", 3, "--ps", 2).out
        self.assertRegex(out, r"(?m)^conv1 +conv2d +\[6, 10, 10\] +54 +10800$")  # 6·10·10 values of 9 products
        self.assertRegex(out, r"(?m)^norm1 +batch_norm \+ relu +\[6, 10, 10\] +12 ")
        self.assertRegex(out, r"(?m)^dense1 +linear \+ tanh +\[24\] +3624 +7200$")
        self.assertRegex(out, r"(?m)^dense2 +linear +\[10\] +250 +480$")
        self.assertIn("3940 trainable parameters", out)
        self.assertIn("600 training samples", out)
        self.assertIn("40 steps of 40 samples", out)
        self.assertIn("K = 5 of 8 samples", out)
        for word in ("server 0: ", "server 1: ", "memory of a worker: ", "memory of the fullest server: "):
            self.assertIn(word, out)
        for name in ("conv1.weight", "norm1.running_var", "dense1.weight", "dense2.bias"):
            self.assertRegex(out, rf"(?m)^  {re.escape(name)} .* B$")
        self.assertNotIn("in one process", out)
        self.assertIn("memory in one process: ", self.dtrain("check", self.run_toml).out)
        self.assertNotIn("idle", out)
        self.assertIn("2 of 7 workers will idle", self.dtrain("check", self.run_toml, "--workers", 7).out)
        self.assertEqual(os.listdir(self.dir).count("runs"), 0, "nothing is written")

    def test_cluster(self):
        out = self.dtrain("check", self.run_toml, "--cluster_spec", "ps|a:1;b:1;c:1,worker|d:1").out
        self.assertIn("server 2: ", out)
        self.assertNotIn("server 3: ", out)

    def test_dump_config_is_a_run_file(self):
        cluster.write(self.path("sub.toml"), "[train]\nlog_every = 4\n")
        run = cluster.write(self.path("run.toml"), 'include = ["sub.toml"]\n' + cluster.RUN.replace("log_every = 5\n", ""))
        flags = ["--set", "optimizer.lr=0.004", "--set", "train.steps=9"]
        p = self.dtrain("check", run, *flags, "--dump_config")
        self.assertEqual(p.err, "")
        self.assertIn("0.004", p.out)
        dumped = cluster.write(self.path("dumped.toml"), p.out)
        self.assertEqual(self.dtrain("check", dumped, "--dump-config").out, p.out, "the dump of the dump is the dump")
        self.dtrain("run", run, *flags, "--out", self.path("a"))
        self.dtrain("run", dumped, "--out", self.path("b"))
        self.assertEqual(self.model_hash("a"), self.model_hash("b"))
        self.assertEqual(self.steps("b"), [4, 8, 9])


class Benchmark(cluster.ProcessTest):
    def test_step(self):
        p = self.dtrain("benchmark", "step", self.run_toml, "--steps", 3, "--warmup", 1, "--json")
        row = json.loads(p.out)
        self.assertLessEqual({"min_ms", "median_ms", "samples_per_s", "peak_rss_mb"}, set(row))
        self.assertLess(0, row["min_ms"])
        self.assertLessEqual(row["min_ms"], row["median_ms"])
        self.assertFalse(os.path.exists(self.path("runs")), "nothing is written")

    def test_step_needs_no_data_and_compares(self):
        os.remove(self.path("images.idx"))
        self.dtrain("benchmark", "step", self.run_toml, "--steps", 4, "--data", expect=3)
        p = self.dtrain("benchmark", "step", self.run_toml, "--steps", 4, "--workers", 2, "--json")
        old = cluster.write(self.path("old.json"), p.out)
        self.assertEqual(json.loads(p.out)["settings"]["batch"], 80)
        p = self.dtrain("benchmark", "step", self.run_toml, "--steps", 4, "--json", "--compare", old)
        row = json.loads(p.out)
        self.assertEqual([c["name"] for c in row["compared"]], [f["name"] for f in row["figures"]])
        p = self.dtrain("benchmark", "scaling", self.run_toml, "--compare", old, expect=2)
        self.assertIn("is of dtrain benchmark step", p.err)

    def test_data(self):
        row = json.loads(self.dtrain("benchmark", "data", self.run_toml, "--steps", 3, "--rounds", 2, "--json").out)
        self.assertEqual([f["name"] for f in row["figures"]], ["first", "reader", "bytes", "step", "both"])
        self.assertIn("the reader", row["verdict"])

    def test_scaling(self):
        p = self.dtrain("benchmark", "scaling", self.run_toml, "--workers", "1,2", "--placement", "workers,ps", "--rounds", 1,
                        "--steps", 2, "--json", "--svg", self.path("chart.svg"))
        names = {f["name"] for f in json.loads(p.out)["figures"]}
        for row in ("1.workers", "2.workers", "1.ps1", "2.ps1"):
            self.assertLessEqual({f"{row}.samples", f"{row}.speed_up", f"{row}.efficiency"}, names)
        chart = xml.etree.ElementTree.parse(self.path("chart.svg")).getroot()
        dots = chart.findall(".//{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(dots), 2 * 4 + 2, "four points in each chart, and one a line in the legend")
        self.dtrain("benchmark", "scaling", self.run_toml, "--placement", "nowhere", expect=2)

    def test_scaling_shares_one_batch(self):
        flags = ["benchmark", "scaling", self.run_toml, "--workers", "1,3", "--placement", "all", "--ps", 2, "--rounds", 1, "--steps", 2]
        row = json.loads(self.dtrain(*flags, "--strong", "--json").out)
        self.assertEqual(row["settings"]["scaling"], "strong")
        self.assertEqual(list(dict.fromkeys(f["name"].rsplit(".", 1)[0] for f in row["figures"])), ["1.workers", "1.all2", "3.all2"])
        out = self.dtrain(*flags, "--strong").out
        self.assertIn("40 samples a step", out)
        self.assertEqual(re.findall(r"(?m)^ +(\d+) (workers|all, 2 ps) +(\d+) ", out),
                         [("1", "workers", "40"), ("1", "all, 2 ps", "40"), ("3", "all, 2 ps", "40")])
        out = self.dtrain(*flags).out
        self.assertEqual(re.findall(r"(?m)^ +(\d+) (workers|all, 2 ps) +(\d+) ", out),
                         [("1", "workers", "40"), ("1", "all, 2 ps", "40"), ("3", "all, 2 ps", "120")])
        p = self.dtrain("benchmark", "scaling", self.run_toml, "--workers", 41, "--strong", expect=2)
        self.assertIn("--strong: train.batch is 40, too few samples for 41 workers", p.err)

    def test_compress(self):
        row = json.loads(self.dtrain("benchmark", "compress", "--rounds", 1, "--json").out)
        names = {f["name"] for f in row["figures"]}
        for method in ("fp16", "bf16", "2bit"):
            self.assertLessEqual({f"{method}.encode", f"{method}.decode", f"{method}.add"}, names)
            self.assertGreater(row[f"{method}_bytes"], 0)

    def test_wire(self):
        flags = ["benchmark", "wire", "--sizes", "40KiB,1MiB,40KiB", "--rounds", 2]
        p = self.dtrain(*flags, "--json")
        row = json.loads(p.out)
        self.assertEqual(row["part"], "wire")
        figures = {f["name"]: f for f in row["figures"]}
        self.assertEqual(len(figures), len(row["figures"]), "no name twice")
        self.assertEqual(list(dict.fromkeys(name.split(".")[0] for name in figures)),
                         ["1638x40KiB", "40KiB", "64x1MiB", "1MiB", "round_trip"])
        for name, f in figures.items():
            group, key = name.split(".")
            self.assertEqual((f["unit"], f["less_is_better"]), ("µs", True) if group == "round_trip" else ("GB/s", False))
            self.assertEqual(f["rounds"], 2)
            self.assertTrue(0 < f["low"] <= f["median"] <= f["high"], f)
            limit = {"push_tcp": "raw_tcp_sum", "pull_tcp": "raw_tcp_sum", "push_unix": "raw_unix_sum", "pull_unix": "raw_unix_sum",
                     "push_host": "shared_sum", "pull_host": "memcpy", "message_tcp": "echo_tcp", "message_host": "echo_unix"}.get(key)
            self.assertEqual(f.get("peak"), figures[f"{group}.{limit}"]["best"] if limit else None, name)
        old = cluster.write(self.path("old.json"), p.out)
        flags[3] = "1MiB"
        out = self.dtrain(*flags, "--compare", old).out
        self.assertRegex(out, r"(?m)^  push over TCP +[0-9.]+ +[0-9.]+ … [0-9.]+ +[0-9.]+ GB/s +[0-9]+ % of [0-9.]+ GB/s, raw TCP, summed$")
        self.assertRegex(out, r"(?m)^64 × 1 MiB: push over TCP .* too few rounds to say$")
        self.assertIn("40KiB.memcpy was measured then and is not now", out)
        p = self.dtrain("benchmark", "wire", "--sizes", "1001", expect=2)
        self.assertIn("--sizes: 1001", p.err)
        p = self.dtrain("benchmark", "compress", "--compare", old, expect=2)
        self.assertIn("is of dtrain benchmark wire", p.err)


if __name__ == "__main__":
    unittest.main()
