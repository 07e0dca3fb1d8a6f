"""Guests at a running job: dtrain params and dtrain top against two servers and two workers, and strangers who mean harm."""
import json, os, re, signal, socket, struct, subprocess, threading, unittest

from cluster import DTRAIN, ProcessTest, free_ports, until, write

# So that a frozen task is not taken for lost, and K does not depend on the cluster.
PATIENT = ("--set", "train.peer_timeout=100")
TENSORS = ["conv1.weight", "norm1.weight", "norm1.bias", "norm1.running_mean", "norm1.running_var", "dense1.weight",
           "dense1.bias", "dense2.weight", "dense2.bias"]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def frame(version, kind, fields=b""):
    start = b"DTRN" + struct.pack("<HHII", version, kind, len(fields), 0)
    return start + struct.pack("<II", crc32c(start + fields), 0) + fields


def protocol_version():
    from cluster import ROOT
    with open(os.path.join(ROOT, "proto-free-wire", "frame.h")) as f:
        return int(re.search(r"kProtocolVersion = (\d+)", f.read()).group(1))


def npy(shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values)


def npy_values(path):
    with open(path, "rb") as f:
        data = f.read()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


class Params(ProcessTest):
    def job(self, *args, out="out", steps=400, ps=2, workers=2):
        """Starts a cluster; the tasks, coordinator first."""
        self.spec, self.at = self.cluster(workers, ps)
        tasks = [(job, i) for job, n in (("ps", ps), ("worker", workers)) for i in range(n)]
        self.address = f"127.0.0.1:{self.at['ps', 0]}"
        return [self.start_task(self.spec, job, i, "--set", f"train.steps={steps}", "--set", "train.speculation=false", *PATIENT, *args, out=out)
                for job, i in tasks]

    def guest(self, *args, at=None, expect=0):
        return self.dtrain(*args, "--ps", at or self.address, expect=expect)

    def read_all(self, out):
        """All tensors at one version into a file: the version and the file."""
        got = self.guest("params", "get", "*", "-o", out)
        match = re.fullmatch(rf"{re.escape(out)}: 9 tensors at version (\d+)\n", got.out)
        self.assertTrue(match, got.out)
        return int(match.group(1)), out

    def standing(self, tasks, what):
        """Does `what` while a worker is frozen, and with it the whole run."""
        tasks[-1].signal(signal.SIGSTOP)
        try:
            def steady():
                before = self.guest("params", "ls", "--json").out
                return before == self.guest("params", "ls", "--json").out
            until(steady, "the run stands")
            return what()
        finally:
            tasks[-1].signal(signal.SIGCONT)

    def test_reads_what_the_checkpoint_of_that_version_holds_and_changes_nothing(self):
        keep = ("--set", "train.checkpoint_every=1", "--set", "train.keep_checkpoints=1000")
        expected = self.train("--set", "train.steps=400", out="alone")
        tasks = self.job(*keep, steps=400)
        self.wait_for_step(tasks[0], "out", 5)
        seen = [self.read_all(f"live{i}.safetensors") for i in range(4)]
        seen.append(self.standing(tasks, lambda: self.read_all("standing.safetensors")))
        for worker_or_server in self.at.values():  # any task knows the others
            listed = json.loads(self.guest("params", "ls", "--json", at=f"127.0.0.1:{worker_or_server}").out)
            self.assertEqual(sorted(t["name"] for t in listed["tensors"]), sorted(TENSORS))
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), expected)
        for version, file in seen:
            self.assertEqual(self.model_hash(file), self.model_hash("out", "checkpoints", f"step-{version:08}"), version)

    def test_reads_a_run_that_goes_on_fast(self):
        expected = self.train("--set", "train.steps=3000", out="alone")
        tasks = self.job(steps=3000)
        self.wait_for_step(tasks[0], "out", 5)
        versions = [self.read_all("live.safetensors")[0] for _ in range(5)]
        self.assertEqual(versions, sorted(versions))
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), expected)

    def test_lists_and_says_statistics(self):
        tasks = self.job(steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        table = self.guest("params", "ls").out
        self.assertRegex(table, r"(?m)^conv1\.weight +\[6, 1, 3, 3\] +trainable +54$")
        self.assertRegex(table, r"(?m)^norm1\.running_mean +\[6\] +statistic +6$")
        self.assertRegex(table, r"(?m)^9 tensors, \d+ elements; run 'small' at version \d+$")
        stats = json.loads(self.guest("params", "stat", "dense*.weight", "norm1.running_var", "--json").out)
        self.assertEqual([t["name"] for t in stats["tensors"]], ["norm1.running_var", "dense1.weight", "dense2.weight"])
        for t in stats["tensors"]:
            self.assertEqual(t["not_finite"], 0)
            self.assertLess(t["min"], t["mean"])
            self.assertLess(t["mean"], t["max"])
        self.assertRegex(self.guest("params", "stat", "--gradient", "dense2.bias").out, r"gradients, step \d+ of run 'small'")
        # What has no gradient is left out where nobody named it.
        gradients = self.guest("params", "stat", "--gradient")
        self.assertIn("left out: 'norm1.running_mean' has no gradient", gradients.err)
        self.assertRegex(gradients.out, r"(?m)^conv1\.weight ")
        self.assertNotIn("running_mean", gradients.out)
        printed = self.guest("params", "get", "dense2.bias").out.split("\n")
        self.assertRegex(printed[0], r"^dense2\.bias \[10\] at version \d+$")
        self.assertEqual(len(printed[1].split()), 10)
        # The end of the run ends what waits for it.
        waiting = self.start("params", "get", "dense2.bias", "--version", 900000, "--timeout", 100, "--ps", self.address)
        top = self.start("top", "--json", "--ps", self.address)
        until(lambda: top.out.count("\n") > 1, "two looks at the tasks")
        tasks[0].signal(signal.SIGINT)
        for guest in (waiting, top):
            self.assertEqual(guest.wait(), 4, guest.err)
            self.assertIn("perhaps since the run has ended", guest.err)
        self.assertEqual(tasks[0].wait(), 130)

    def test_blocks_with_versions_of_their_own(self):
        tasks = self.job("--set", "train.consistency=async", "--set", "optimizer.lr=0.0001", steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        self.assertRegex(self.guest("params", "ls").out, r"run 'small' at each block at its own version\n")
        self.assertIsNone(json.loads(self.guest("params", "ls", "--json").out)["version"])
        self.assertIn("at each block at its own version", self.guest("params", "get", "dense2.bias").out)
        self.assertIn("leave --version out",
                      self.guest("params", "get", "dense2.bias", "--version", 5, expect=2).err)
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_a_reader_of_top_that_has_seen_enough(self):
        tasks = self.job(steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        top = f"{DTRAIN} top --ps {self.address}"
        seen = subprocess.run(["bash", "-c", f"set -o pipefail; {top} | head -1"], capture_output=True, text=True, timeout=60)
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        full = subprocess.run(["bash", "-c", f"{top} > /dev/full"], capture_output=True, text=True, timeout=60)
        self.assertEqual(full.returncode, 2)
        self.assertIn("cannot be written", full.stderr)
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_the_gradient_is_what_the_step_was_made_of(self):
        plain = ("--set", 'optimizer.type="sgd"', "--set", "optimizer.lr=0.5", "--set", "optimizer.clip_norm=1e30")
        tasks = self.job(*plain, steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        for ahead in (1000, 4000, 16000):  # far enough for three processes to start, however slow that is here
            at = json.loads(self.guest("params", "ls", "--json").out)["version"] + ahead
            wanted = {"before": ("--version", at), "after": ("--version", at + 1), "gradient": ("--gradient", "--step", at)}
            guests = {name: self.start("params", "get", "dense2.bias", *which, "-o", f"{name}.npy", "--timeout", 60,
                                       "--ps", self.address)
                      for name, which in wanted.items()}
            if [g.wait() for g in guests.values()] == [0, 0, 0]:
                break
        else:
            self.fail("".join(g.err for g in guests.values()))
        before, after, gradient = (npy_values(self.path(f"{name}.npy")) for name in ("before", "after", "gradient"))
        self.assertEqual(len(gradient), 10)  # small: all three are held at the same time
        self.assertGreater(max(map(abs, gradient)), 1e-6)
        for b, a, g in zip(before, after, gradient):
            self.assertAlmostEqual(a, b - 0.5 * g, delta=1e-6)
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_put_changes_the_run_and_is_recorded(self):
        expected = self.train("--set", "train.steps=3000", out="alone")
        tasks = self.job("--allow_put", steps=3000)
        self.wait_for_step(tasks[0], "out", 5)
        write(self.path("new.npy"), npy("(24, 150)", [0.25] * 3600))
        done = self.guest("params", "put", "dense1.weight", "new.npy")
        version = int(re.fullmatch(r"'dense1.weight' is replaced since version (\d+)\n", done.out).group(1))
        self.assert_all_done(tasks)
        self.assertEqual(self.events("out", "put"), [{"event": "put", "step": version, "tensor": "dense1.weight"}])
        tasks[0].says(rf"a guest replaces 'dense1.weight' at step {version}")
        self.assertNotEqual(self.model_hash("out"), expected)

    def test_put_is_refused(self):
        tasks = self.job(steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        write(self.path("new.npy"), npy("(10,)", [0.0] * 10))
        write(self.path("wrong.npy"), npy("(5, 2)", [0.0] * 10))
        write(self.path("nan.npy"), npy("(10,)", [float("nan")] * 10))
        def what(file, tensor, code):
            return self.guest("params", "put", tensor, file, expect=code).err
        self.assertIn("--allow_put", what("new.npy", "dense2.bias", 2))
        self.assertIn("'dense2.bias' has the shape [10], wrong.npy the shape [5, 2]", what("wrong.npy", "dense2.bias", 3))
        self.assertIn("element 0 is nan", what("nan.npy", "dense2.bias", 3))
        self.assertIn("did you mean 'dense2.bias'", what("new.npy", "dense2.bais", 2))
        self.assertIn("none.npy", what("none.npy", "dense2.bias", 3))
        self.assertIn("no tensor 'nothing*'", self.guest("params", "get", "nothing*", expect=2).err)
        self.assertIn("no longer kept", self.guest("params", "get", "dense2.bias", "--version", 1, expect=2).err)
        self.assertIn("has no gradient", self.guest("params", "get", "norm1.running_var", "--gradient", expect=2).err)
        self.assertIn("holds one", self.guest("params", "get", "*", "-o", "x.npy", expect=2).err)
        self.assertEqual(self.events("out", "put"), [])
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_nobody_there(self):
        port, = free_ports(1)
        for command in (("params", "ls"), ("top", "--once")):
            self.assertIn("nobody is there", self.guest(*command, at=f"127.0.0.1:{port}", expect=4).err)
        self.assertIn("--ps: 'here' is no address", self.guest("top", at="here", expect=2).err)
        for flag, wrong, says in (("--timeout", "nan", "from 0.1 to 86400"), ("--timeout", "0", "from 0.1 to 86400"),
                                  ("--version", "-1", "not in range 0 to 9223372036854775807")):
            self.assertIn(says, self.guest("params", "stat", flag, wrong, at=f"127.0.0.1:{port}", expect=2).err)
        with socket.create_server(("127.0.0.1", 0)) as other:
            def answer():
                peer, _ = other.accept()
                with peer:
                    peer.recv(100)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    peer.recv(100)
            thread = threading.Thread(target=answer)
            thread.start()
            said = self.guest("params", "ls", at=f"127.0.0.1:{other.getsockname()[1]}", expect=4).err
            thread.join()
            self.assertIn("does not answer as a task of dtrain does", said)

    def test_a_standing_run_ends_the_wait_at_the_timeout(self):
        tasks = self.job(steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        def ask():
            said = self.guest("params", "get", "dense2.bias", "--gradient", "--timeout", "1", expect=4).err
            self.assertIn("the run stands still", said)
        self.standing(tasks, ask)
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_top_knows_every_task(self):
        tasks = self.job(steps=1000000)
        self.wait_for_step(tasks[0], "out", 5)
        def all_there():
            table = json.loads(self.guest("top", "--once", "--json").out)
            return table if all(t["present"] and t["step"] > 0 for t in table["tasks"]) else None
        table = until(all_there, "all tasks are heard")
        self.assertEqual([t["task"] for t in table["tasks"]],
                         ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"])
        for t in table["tasks"]:
            self.assertGreaterEqual(t["lag"], 0)
            self.assertGreater(t["sent"], 0)
            self.assertGreater(t["received"], 0)
            self.assertGreater(t["resident"], 1 << 20)
        self.assertEqual((table["phase"], table["steps"]), ("training", 1000000))
        moving = until(lambda: (lambda t: t if t["step"] > table["step"] and all(
            x["samples_per_s"] > 0 for x in t["tasks"] if x["computes"]) else None)(
                json.loads(self.guest("top", "--once", "--json").out)), "a later step, and samples")
        self.assertEqual(len(moving["tasks"]), 4)
        self.assertRegex(self.guest("top", "--once").out, r"(?m)^/job:worker/task:1 +worker +\d+ +\d+ ")
        tasks[0].signal(signal.SIGINT)
        self.assertEqual(tasks[0].wait(), 130)

    def test_strangers_who_mean_harm_are_not_felt(self):
        version = protocol_version()
        expected = self.train("--set", "train.steps=600", out="alone")
        tasks = self.job(steps=600)
        self.wait_for_step(tasks[0], "out", 3)
        hello = frame(version, 50, struct.pack("<I", 1) + b"x")
        read_all = frame(version, 57, struct.pack("<IBqI9q", 1, 0, -1, 9, *range(9)))
        ask = frame(version, 51)
        peers = []
        for port in self.at.values():
            for what in (b"\0" * 100000, hello + b"garbage" * 100, hello + ask * 4000, hello + read_all * 4000,
                         hello + frame(version, 57, b"short"), hello + frame(version, 30, b"\0" * 20), hello):
                peer = socket.create_connection(("127.0.0.1", port))
                peer.settimeout(5)
                try:
                    peer.sendall(what)
                except OSError:
                    pass  # cut off already
                peers.append(peer)  # nobody reads what comes
        self.assert_all_done(tasks)
        for peer in peers:
            peer.close()
        self.assertEqual(self.model_hash("out"), expected)


if __name__ == "__main__":
    unittest.main()
