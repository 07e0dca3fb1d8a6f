#!/usr/bin/env python3
"""Mistakes in run files, data and command lines: the exit code of the table, where it is, and what was meant; nothing is
left running and no folder is made."""
import gzip, os, struct, unittest

import cluster

USAGE, DATA = 2, 3


def npy(array_header, data):
    header = array_header.encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


class BadInput(cluster.ProcessTest):
    def refused(self, text, line_of, *says, code=USAGE, command=("run",), flags=()):
        """The run file `text` is refused; the message points at the line that contains `line_of`."""
        bad = cluster.write(self.path("bad.toml"), text)
        p = self.dtrain(*command, bad, "--out", self.path("out"), *flags, expect=code, deadline=60)
        if line_of:
            line = next(n for n, l in enumerate(text.splitlines(), 1) if line_of in l)
            self.assertRegex(p.err, rf"bad\.toml:{line}:[1-9][0-9]*: ", p.err)
        for word in says:
            self.assertIn(word, p.err)
        self.assertNotIn("dtrain: bug", p.err)
        self.assertFalse(os.path.exists(self.path("out")), f"a folder was made\n{p.err}")
        return p

    def changed(self, before, after):
        self.assertIn(before, cluster.RUN)
        return cluster.RUN.replace(before, after, 1)

    def refused_change(self, before, after, *says, **kwargs):
        with self.subTest(change=after):
            self.refused(self.changed(before, after), after.split("\n")[-1], *says, **kwargs)


class RunFile(BadInput):
    def test_unknown_names(self):
        self.refused_change("steps = 40", "stepps = 40", "did you mean 'steps'")
        self.refused_change("[optimizer]", "[optimiser]", "did you mean 'optimizer'")
        self.refused_change("filters = 6,", "filter = 6,", "did you mean 'filters'")
        self.refused_change('type = "conv2d"', 'type = "conv2dd"', "did you mean 'conv2d'")
        self.refused_change('type = "adam"', 'type = "adamm"', "did you mean 'adam'")
        self.refused_change('format = "idx"', 'format = "idxx"', "did you mean 'idx'")
        self.refused_change('activation = "relu"', 'activation = "rellu"', "did you mean 'relu'")

    def test_wrong_types(self):
        self.refused_change("steps = 40", 'steps = "forty"', "steps", "integer")
        self.refused_change("batch = 40", "batch = 40.5", "batch", "integer")
        self.refused_change("kernel = 3,", 'kernel = "three",', "kernel")
        self.refused_change("shuffle = true", "shuffle = 1", "shuffle")
        self.refused_change('name = "small"', "name = 7", "name")

    def test_values_out_of_range(self):
        self.refused_change("batch = 40", "batch = -3", "batch")
        self.refused_change("batch = 40", "batch = 0", "batch")
        self.refused_change("steps = 40", "steps = 0", "steps")
        self.refused_change("rate = 0.4", "rate = 1.4", "rate")
        self.refused_change("threads = 1", "threads = 0", "threads")
        self.refused_change("filters = 6", "filters = 0", "filters")
        self.refused_change("lr = 0.002", "lr = -1.0", "lr")
        self.refused_change("batch = 40", "batch = 99999999999999999999", "bad.toml")

    def test_what_does_not_fit(self):
        self.refused_change("micro_batch = 8", "micro_batch = 7", "micro_batch", "40")
        self.refused_change("kernel = 3,", "kernel = 13,", "13", "12")
        self.refused(self.changed("input = [1, 12, 12]", "input = [1, 12, 11]"), 'format = "idx"', "[1, 12, 11]", "[1, 12, 12]")
        self.refused_change("steps = 40", "steps = 40\nepochs = 2", "epochs", "steps")

    def test_what_is_missing(self):
        self.refused(self.changed("batch = 40\n", ""), None, "batch", "bad.toml:")
        self.refused(self.changed("steps = 40\n", ""), None, "steps", "epochs", "bad.toml:")
        self.refused(self.changed("[optimizer]\ntype = \"adam\"\nlr = 0.002\nclip_norm = 1.0\n", ""), None, "optimizer")
        self.refused(self.changed("  { type = \"softmax_cross_entropy\" },\n", ""), None, "loss", "bad.toml:")
        self.refused("", None, "bad.toml", "network")

    def test_broken_toml(self):
        self.refused_change("lr = 0.002", "lr = 0.002 0.3", "bad.toml")
        self.refused_change("[train]", "[train", "bad.toml")
        self.refused(self.changed("seed = 11", "seed = 11\nseed = 12"), "seed = 12", "seed")
        bad = cluster.write(self.path("bad.toml"), b"\xff\xfe\x00\x01")
        self.assertIn("bad.toml", self.dtrain("run", bad, expect=USAGE).err)

    def test_layer_that_is_not_there(self):
        self.refused_change('name = "dense2",', 'name = "dense2", inputs = ["dense7"],', "dense7", "did you mean 'dense1'")
        self.refused(self.changed('name = "dense2", type', 'name = "dense1",  type'), 'name = "dense1",  type', "dense1")

    def test_all_mistakes_at_once(self):
        text = cluster.RUN
        changes = [("steps = 40", "stepps = 40"), ("filters = 6", 'filters = "six"'), ('type = "adam"', 'type = "adamm"'),
                   ("seed = 11", "sed = 11"), ("log_every = 5", "log_every = 0")]
        for before, after in changes:
            text = text.replace(before, after)
        p = self.refused(text, None)
        lines = {n for n, l in enumerate(text.splitlines(), 1) for _, after in changes if after in l}
        for line in lines:
            self.assertRegex(p.err, rf"(?m)^dtrain: .*bad\.toml:{line}:", f"line {line} is not reported\n{p.err}")
        self.assertEqual(len(lines), len(changes))

    def test_include(self):
        cluster.write(self.path("a.toml"), 'include = ["bad.toml"]\n')
        p = self.refused('include = ["a.toml"]\n' + cluster.RUN, None, "a.toml")
        self.assertRegex(p.err, r"(bad|a)\.toml:1:\d+")
        self.refused('include = ["nowhere.toml"]\n' + cluster.RUN, "include", "nowhere.toml")
        # A mistake in an included file is reported there.
        cluster.write(self.path("net.toml"), "\n\n[network]\ninputt = 3\n")
        self.assertIn("net.toml:4:", self.refused('include = ["net.toml"]\n' + cluster.RUN, None).err)

    def test_no_such_run_file(self):
        p = self.dtrain("run", self.path("nowhere.toml"), expect=USAGE)
        self.assertIn("nowhere.toml", p.err)
        p = self.dtrain("run", self.dir, expect=USAGE)
        self.assertIn(self.dir, p.err)

    def test_set(self):
        for flag, says in (("train.stepps=4", "did you mean 'steps'"), ("train.steps", "train.steps"), ("=4", "key"),
                           ("train.steps=[", "train.steps"), ("train.steps=many", "steps"), ("train.steps.x=1", "steps"),
                           ("network.layers=3", "layers"), ("", "--set")):
            with self.subTest(set=flag):
                self.refused(cluster.RUN, None, says, flags=["--set", flag])

    def test_check_and_launch_say_the_same(self):
        text = self.changed("steps = 40", "stepps = 40")
        alone = self.refused(text, "stepps").err
        self.assertEqual(self.refused(text, "stepps", command=("launch", "--workers", "2", "--ps", "1")).err, alone)
        p = self.dtrain("check", self.path("bad.toml"), expect=USAGE)
        self.assertEqual(p.err, alone)


class Data(BadInput):
    def data(self, *says, code=DATA, text=cluster.RUN, **kwargs):
        return self.refused(text, None, *says, code=code, **kwargs)

    def test_missing_file(self):
        self.refused(self.changed('"labels.idx"', '"nowhere.idx"'), "nowhere.idx", self.path("nowhere.idx"), code=DATA)

    def test_truncated_and_damaged_idx(self):
        whole = open(self.path("images.idx"), "rb").read()
        for name, content in (("cut in the pixels", whole[:-1]), ("cut in the header", whole[:9]), ("empty", b""),
                              ("no magic", b"\x01" + whole[1:]), ("unknown type", whole[:2] + b"\x07" + whole[3:]),
                              ("more than it says", whole + b"x"), ("text", b"hello world, these are no images\n" * 9),
                              ("huge", cluster.idx((0xffffffff, 0xffffffff, 0xffffffff), b"")),
                              ("cut gzip", gzip.compress(whole)[:-100])):
            with self.subTest(name):
                cluster.write(self.path("images.idx"), content)
                self.data("images.idx")

    def test_labels(self):
        images = 600
        for name, content, says in (
                ("out of range", cluster.idx((images,), bytes([10] * images)), "10"),
                ("too few", cluster.idx((images - 1,), bytes(images - 1)), "599"),
                ("of two axes", cluster.idx((images, 2), bytes(2 * images)), "labels")):
            with self.subTest(name):
                cluster.write(self.path("labels.idx"), content)
                bad = cluster.write(self.path("bad.toml"), cluster.RUN)
                p = self.start("run", bad, "--out", self.path("out"))
                self.assertIn(p.wait(), (USAGE, DATA), p.err)
                self.assertIn(says, p.err)
                self.assertRegex(p.err, r"bad\.toml:\d+:\d+|labels\.idx")
                self.assertFalse(os.path.exists(self.path("out")))

    def test_no_samples(self):
        cluster.write(self.path("images.idx"), cluster.idx((0, 12, 12), b""))
        cluster.write(self.path("labels.idx"), cluster.idx((0,), b""))
        self.data("there are no samples")

    def test_npy(self):
        text = cluster.RUN.replace('format = "idx"\nimages = "images.idx"\nlabels = "labels.idx"',
                                   'format = "npy"\ninputs = "x.npy"\nlabels = "y.npy"')
        x = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (50, 1, 12, 12), }", bytes(range(250)) * 28 + bytes(200))
        y = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (50,), }", struct.pack("<50q", *[i % 10 for i in range(50)]))
        cluster.write(self.path("x.npy"), x)
        cluster.write(self.path("y.npy"), y)
        good = cluster.write(self.path("good.toml"), text)
        self.dtrain("run", good, "--out", self.path("good"), "--set", "train.steps=2")
        for name, content in (("cut", x[:-1]), ("no magic", b"\x94" + x[1:]), ("empty", b""),
                              ("objects", npy("{'descr': '|O', 'fortran_order': False, 'shape': (50, 1, 12, 12), }", x[128:])),
                              ("no dictionary", npy("hello", x[128:])),
                              ("huge", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999999, 1, 12, 12), }", b""))):
            with self.subTest(name):
                cluster.write(self.path("x.npy"), content)
                self.data("x.npy", text=text)

    def test_launch_stops_for_it_too(self):
        cluster.write(self.path("images.idx"), b"no images")
        bad = cluster.write(self.path("bad.toml"), cluster.RUN)
        p = self.dtrain("launch", bad, "--workers", 2, "--ps", 1, "--out", self.path("out"), expect=DATA, deadline=60)
        self.assertIn("images.idx", p.err)
        self.assert_no_process_left(0)


class CommandLine(BadInput):
    def test_unknown_words(self):
        for args, says in ((["rnu", "x.toml"], "did you mean 'run'"), (["lanuch"], "did you mean 'launch'"),
                           (["run", self.run_toml, "--resum"], "did you mean '--resume'"),
                           (["run", self.run_toml, "--job-nme=worker"], "did you mean '--job_name'"),
                           (["launch", self.run_toml, "--worker", "2"], "did you mean '--workers'"),
                           (["inspect", "x", "--hsah"], "did you mean '--hash'"), (["--verson"], "--version"),
                           (["run", self.run_toml, "more.toml"], "more.toml"),
                           (["params"], "params what: ls, stat, get, put?"), (["params", "sta"], "did you mean 'stat'"),
                           (["benchmark", "--json"], "step, data, scaling, wire, compress")):
            with self.subTest(args=args):
                p = self.dtrain(*args, expect=USAGE)
                self.assertIn(says, p.err)
                self.assertEqual(p.out, "")

    def test_numbers_that_are_none(self):
        for args in (["--workers", "0"], ["--workers", "-1"], ["--workers", "two"], ["--workers", "1", "--ps", "-1"],
                     ["--workers", "99999999999"], [], ["--ps", "2"]):
            with self.subTest(args=args):
                p = self.dtrain("launch", self.run_toml, *args, "--out", self.path("out"), expect=USAGE)
                self.assertIn("--ps" if args[2:] else "--workers", p.err)
                self.assertFalse(os.path.exists(self.path("out")))

    def test_nothing_to_do(self):
        self.assertIn("run", self.dtrain(expect=USAGE).err)
        self.assertIn("RUN", self.dtrain("run", expect=USAGE).err)

    def test_out_that_cannot_be(self):
        p = self.dtrain("run", self.run_toml, "--out", "/dev/null/out", expect=USAGE)
        self.assertIn("/dev/null/out", p.err)
        p = self.dtrain("launch", self.run_toml, "--workers", 1, "--out", "/dev/null/out", expect=USAGE)
        self.assertIn("/dev/null/out", p.err)

    def test_init_that_is_none(self):
        p = self.dtrain("run", self.run_toml, "--init", self.path("nowhere.safetensors"), "--out", self.path("out"), expect=5)
        self.assertIn("nowhere.safetensors", p.err)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_init_that_is_a_folder(self):
        os.mkdir(self.path("run"))
        p = self.dtrain("run", self.run_toml, "--init", self.path("run"), "--out", self.path("out"), expect=5)
        self.assertIn(f"--init takes a model file, and {self.path('run')} is a folder", p.err)
        self.assertFalse(os.path.exists(self.path("out")))


del BadInput  # it has no test of its own

if __name__ == "__main__":
    unittest.main()
