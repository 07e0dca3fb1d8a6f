#!/usr/bin/env python3
"""What `dtrain check` says of placements, and how much it says."""
import os, re, subprocess, unittest

import cluster

# 100 · 1000 + 1000 = 101,000 elements in three blocks' worth of servers; one micro-batch a worker.
RUN = re.sub(r"layers = \[.*\]\n", """layers = [
  { type = "flatten" },
  { name = "big", type = "linear", units = %d, activation = "relu" },
  { name = "out", type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
""", cluster.RUN.replace("micro_batch = 8\n", ""), flags=re.S)


class Check(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.run_toml = cluster.write(self.path("check.toml"), RUN % 100)

    def rows(self, out):
        """(servers, kind) → (tasks, sends, receives, takes) of the table of traffic."""
        found, servers = {}, ""
        for line in out.split("to and from other tasks", 1)[1].splitlines()[2:]:
            match = re.match(r"(\w*) +(\d+) (ps|workers) +([\d.]+ \w+) +([\d.]+ \w+)(?: +([\d.]+ \w+))?$", line)
            if not match:
                break
            servers = match.group(1) or servers
            found[servers, match.group(3)] = (int(match.group(2)), *match.groups()[3:])
        return found

    def test_what_each_placement_moves(self):
        # 144 · 100 + 100 + 100 · 10 + 10 parameters: 62,040 bytes, of which one server of two holds big.weight.
        out = self.dtrain("check", self.run_toml, "--workers", 2, "--ps", 1, "--bandwidth", "1Mbps").out
        rows = self.rows(out)
        self.assertEqual(rows["ps", "ps"], (1, "121.2 KiB", "121.2 KiB", "993 ms"))
        self.assertEqual(rows["ps", "workers"], (2, "60.6 KiB", "60.6 KiB", "496 ms"))
        self.assertEqual(rows["workers", "workers"], (2, "60.6 KiB", "60.6 KiB", "496 ms"))
        self.assertIn(("all", "ps"), rows)
        self.assertIn('the cheapest is servers = "workers": at least 496 ms a step, for what a worker sends', out)

    def test_compression_in_both_directions(self):
        shape = ["check", self.run_toml, "--workers", 2, "--ps", 1]
        for keys, sends, receives in ((["compression"], "30.3 KiB", "60.6 KiB"), (["compress_pulls"], "60.6 KiB", "30.3 KiB"),
                                      (["compression", "compress_pulls"], "30.3 KiB", "30.3 KiB")):
            out = self.dtrain(*shape, *(f for key in keys for f in ("--set", f"train.{key}=fp16"))).out
            self.assertEqual(self.rows(out)["ps", "workers"][1:3], (sends, receives))
            self.assertIn("at most, with " + " and ".join(f"train.{key}" for key in keys) + "\n", out)

    def test_bandwidths_decide(self):
        shape = ["check", self.run_toml, "--workers", 2, "--ps", 1]
        out = self.dtrain(*shape, "--bandwidth", "ps=10Gbps,worker=1Gbps").out
        self.assertRegex(out, r'at 10 Gbit/s of a ps and 1 Gbit/s of a worker the cheapest is servers = "ps"')
        out = self.dtrain(*shape, "--bandwidth", "ps=100Mbps,worker=1Gbps").out
        self.assertIn('servers = "workers"', out)
        self.assertIn("where all links are equally fast", self.dtrain(*shape).out)

    def test_the_same_bits_are_promised_only_where_they_are_kept(self):
        def line(*sets):
            out = self.dtrain("check", self.run_toml, *(w for s in sets for w in ("--set", s))).out
            return next(l for l in out.splitlines() if l.startswith("consistency: "))

        self.assertIn("; the same bits on any cluster", line())
        self.assertNotIn("bits", line("train.allow_different_arithmetic=true"))
        for given in ("train.consistency=async", "train.compression=fp16", "train.compress_pulls=1bit"):
            self.assertIn("; not reproducible to the bit: with train.", line(given))
            self.assertNotIn("the same bits", line(given))

    def test_one_task_moves_nothing(self):
        self.assertNotIn("other tasks", self.dtrain("check", self.run_toml).out)

    def test_a_cluster_that_others_may_join(self):
        out = self.dtrain("check", self.run_toml, "--cluster_spec", "worker|a:1;b:1", "--max_workers", 4).out
        self.assertEqual(self.rows(out)["workers", "workers"][0], 4)
        self.assertIn("over 4 workers", out)
        self.assertNotIn("server 2", out)

    def test_servers_on_all(self):
        spec = ["--cluster_spec", "ps|a:1,worker|b:1;c:1"]
        self.assertNotIn("server 1", self.dtrain("check", self.run_toml, *spec).out)
        self.assertIn("server 2", self.dtrain("check", self.run_toml, *spec, "--servers", "all").out)
        self.assertIn("server 2", self.dtrain("check", self.run_toml, "--ps", 1, "--workers", 2, "--servers", "all").out)

    def test_wrong_bandwidths(self):
        for text, says in (("10", "the unit is missing"), ("10GB", "'GB' is no unit"), ("ps=1Gbps", "that of a worker is missing"),
                           ("wrker=1Gbps", "'wrker' is no kind of task"), ("1Gbps,worker=2Gbps", "a second time"),
                           ("ps=1Gbps,ps=2Gbps,worker=1Gbps", "a second time"), ("1Gbps,", "--bandwidth"),
                           ("1e-320bps", "at least 1 bit/s")):
            with self.subTest(text=text):
                p = self.dtrain("check", self.run_toml, "--bandwidth", text, expect=2)
                self.assertIn(says, p.err)

    def test_placements_that_cannot_be(self):
        for flags, says in ((["--cluster_spec", "worker|a:1", "--servers", "ps"], "has none"),
                            (["--cluster_spec", "worker|a:1,ps|b:1", "--servers", "workers"], "leave these out"),
                            (["--ps", 0, "--servers", "ps"], "has none")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.dtrain("check", self.run_toml, *flags, expect=2).err)

    def test_many_blocks_are_summed_up(self):
        large = cluster.write(self.path("large.toml"), RUN % 100_000)
        out = self.dtrain("check", large, "--ps", 2).out
        self.assertRegex(out, r"server 1: \d+ blocks")
        self.assertIn("--blocks", out)
        self.assertNotRegex(out, r"(?m)^  big\.weight ")
        self.assertEqual(len(re.findall(r"(?m)^  big\.weight ", self.dtrain("check", large, "--ps", 2, "--blocks").out)), 55)
        many = self.dtrain("check", large, "--ps", 1000).out
        self.assertRegex(many, r"1000 servers: \d+ blocks, 0 B to 1024.0 KiB of parameters on each")
        self.assertLess(len(many.splitlines()), 40)

    def test_an_instruction_set_that_is_not_here(self):
        p = self.dtrain("check", self.run_toml, "--set", "train.isa=nothing", expect=2)
        self.assertIn("nothing", p.err)

    def test_a_reader_that_has_read_enough(self):
        large = cluster.write(self.path("large.toml"), RUN % 100_000)
        for args in (["check", large, "--ps", "2", "--blocks"], ["check", self.run_toml], ["--help"], ["check", "--help"]):
            read, write = os.pipe()
            os.close(read)
            p = subprocess.run([cluster.DTRAIN, *args], stdout=write, stderr=subprocess.PIPE, cwd=self.dir,
                               env=self.environment(), timeout=cluster.PATIENCE)
            os.close(write)
            self.assertEqual((p.returncode, p.stderr), (0, b""), args)


if __name__ == "__main__":
    unittest.main()
