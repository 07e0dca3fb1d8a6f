#!/usr/bin/env python3
"""Tasks of a run that has a secret: those that hold it train, those that do not are turned away and told nothing, and the
secret itself shows up nowhere."""
import os, re, secrets, socket, struct, subprocess, unittest

import cluster

LONG = ["--set", "train.steps=1200", "--set", "train.log_every=1"]


class SecretTest(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.word = secrets.token_hex(32)
        self.secret = self.keep("secret", self.word + "\n")
        self.other = self.keep("other", secrets.token_hex(32))

    def keep(self, name, text, mode=0o600):
        path = cluster.write(self.path(name), text)
        os.chmod(path, mode)
        return path

    def start_all(self, spec, tasks, *args):
        return [self.start_task(spec, job, index, "--secret_file", self.secret, *args) for job, index in tasks]


class Together(SecretTest):
    def test_the_same_bits(self):
        want = self.train(out="one")
        for workers, ps in ((2, 1), (3, 0)):
            spec, _ = self.cluster(workers, ps)
            tasks = [("ps", i) for i in range(ps)] + [("worker", i) for i in range(workers)]
            out = f"out{workers}"
            self.assert_all_done([self.start_task(spec, job, i, "--secret_file", self.secret, out=out) for job, i in tasks])
            self.assertEqual(self.model_hash(out), want)

    def test_every_way_to_hand_it_over(self):
        want = self.train(out="one")
        spec, _ = self.cluster(workers=2, ps=1)
        # The same secret without the line break, in a pipe; a file that is named in the environment; one that is the
        # descriptor's.
        read, write = os.pipe()
        os.write(write, self.word.encode())
        os.close(write)
        os.set_inheritable(read, True)
        common = ["run", self.run_toml, "--cluster_spec", spec, "--out", self.path("out")]
        server = self.start(*common, "--job_name", "ps", "--task_id", 0, "--secret_fd", read, pass_fds=(read,),
                            env={"DTRAIN_SECRET_FILE": self.other})  # the descriptor goes before the file
        os.close(read)
        first = self.start(*common, "--job_name", "worker", "--task_id", 0, env={"DTRAIN_SECRET_FILE": self.secret})
        with open(self.secret, "rb") as file:
            second = self.start(*common, "--job_name", "worker", "--task_id", 1, "--secret_fd", file.fileno(),
                                pass_fds=(file.fileno(),))
        self.assert_all_done([server, first, second])
        self.assertEqual(self.model_hash("out"), want)

    def test_one_process_needs_none(self):
        self.dtrain("run", self.run_toml, "--secret_file", self.path("nowhere"), "--out", self.path("solo"))


class TurnedAway(SecretTest):
    def turned_away(self, server_args, worker_args, worker_says, server_says):
        """A worker is turned away, once in the server's log however often it comes; the right one is taken then."""
        want = self.train(out="one")
        spec, _ = self.cluster(workers=2, ps=1)
        server = self.start_task(spec, "ps", 0, *server_args)
        first = self.start_task(spec, "worker", 0, *server_args)
        server.says(r"waiting for the start: /job:worker/task:1 \(")
        for _ in range(2):
            wrong = self.start_task(spec, "worker", 1, *worker_args)
            self.assertEqual(wrong.wait(), 6, wrong.err)
            self.assertRegex(wrong.err, worker_says)
            self.assertNotIn("digest", wrong.err)
        server.says(server_says)
        self.assertEqual(len(re.findall(server_says, server.err)), 1, server.err)
        self.assertTrue(server.running() and first.running())
        self.assert_all_done([server, first, self.start_task(spec, "worker", 1, *server_args)])
        self.assertEqual(self.model_hash("out"), want)

    def test_another_secret(self):
        self.turned_away(["--secret_file", self.secret], ["--secret_file", self.other],
                         r"/job:ps/task:0 \(127.0.0.1:\d+\) holds another secret than this task: give the same --secret_file",
                         "closed a connection from .*: it has not proven that it holds the secret of this task")

    def test_no_secret(self):
        # What else is wrong with it is not said.
        self.turned_away(["--secret_file", self.secret], ["--set", "optimizer.lr=0.003"],
                         r"/job:ps/task:0 .* it probably has a secret, and this task has none: give the same --secret_file",
                         "refused a task at .*: it has no secret, this task has one; give the same --secret_file to both")

    def test_only_the_worker_has_one(self):
        self.turned_away([], ["--secret_file", self.secret],
                         r"this task has a secret, /job:ps/task:0 \(127.0.0.1:\d+\) has none: give the same --secret_file",
                         "refused a task at .*: it has a secret, this task has none; give the same --secret_file to both")

    def test_files_that_hold_no_secret(self):
        spec, _ = self.cluster(workers=1, ps=1)
        os.mkfifo(self.path("pipe"), 0o600)
        for path, says in ((self.path("nowhere"), "No such file"), (self.path("pipe"), "is no regular file"), (self.dir, "is no regular"),
                           (self.keep("short", "fifteen letters\n"), "holds 15 bytes: a secret has 16 to 4096"),
                           (self.keep("long", "x" * 5000), "holds more than 4096 bytes"),
                           (self.keep("group", self.word, 0o640), "has the permissions 0640.*chmod 600"),
                           (self.keep("all", self.word, 0o604), "has the permissions 0604.*chmod 600")):
            with self.subTest(path=path):
                task = self.start_task(spec, "ps", 0, "--secret_file", path)
                self.assertEqual(task.wait(), 2, task.err)
                self.assertRegex(task.err, f"--secret_file {re.escape(path)}:? {says}")
                self.assertNotIn(self.word, task.err)
        task = self.start_task(spec, "ps", 0, "--secret_fd", 77)
        self.assertEqual(task.wait(), 2, task.err)
        self.assertIn("cannot read the secret from --secret_fd 77: Bad file descriptor", task.err)

    def test_a_file_that_root_has_mounted(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        mount = "mkdir m && mount -t tmpfs none m && cp secret m && chmod 644 m/secret && mount -o remount,ro m"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount], cwd=self.dir, capture_output=True).returncode != 0:
            self.skipTest("this host makes no mount namespaces")
        os.rmdir(self.path("m"))
        spec, _ = self.cluster(workers=1, ps=1)
        server = self.start("run", self.run_toml, "--cluster_spec", spec, "--job_name", "ps", "--task_id", 0, "--out",
                            self.path("out"), "--secret_file", "m/secret",
                            within=["unshare", "-m", "sh", "-c", mount + ' && exec "$@"', "sh"])
        self.assert_all_done([server, self.start_task(spec, "worker", 0, "--secret_file", self.secret)])


def frame(kind, fields, version):
    head = b"DTRN" + struct.pack("<HHII", version, kind, len(fields), 0)
    return head + struct.pack("<II", crc32c(head + fields), 0) + fields


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Strangers(SecretTest):
    def test_who_knows_all_but_the_secret_gets_nothing(self):
        """It has the run file, the data and the cluster spec, and the words of a real task besides."""
        with open(os.path.join(cluster.ROOT, "proto-free-wire", "frame.h"), encoding="utf-8") as f:
            version = int(re.search(r"kProtocolVersion = (\d+)", f.read()).group(1))
        want = self.train(*LONG, out="one")
        spec, at = self.cluster(workers=2, ps=1)
        # What a worker says first, heard at a port at which nothing else listens.
        with socket.create_server(("127.0.0.1", at["ps", 0])) as ear:
            worker = self.start_task(spec, "worker", 1, "--secret_file", self.secret, *LONG)
            heard, _ = ear.accept()
            hello = heard.recv(4096)
            worker.signal(9)
            worker.wait()
            heard.close()
        self.assertEqual(hello[:8], b"DTRN" + struct.pack("<HH", version, 1))
        self.assertNotIn(self.word.encode(), hello)

        tasks = self.start_all(spec, [("ps", 0), ("worker", 0), ("worker", 1)], *LONG)
        self.wait_for_step(tasks[0], "out", 2)
        without = frame(1, hello[24:-32] + bytes(32), version)
        for words in ([hello], [hello, frame(70, bytes(32), version)], [without], [without, frame(10, bytes(14), version)]):
            with socket.create_connection(("127.0.0.1", at["ps", 0]), 10) as stranger:
                stranger.settimeout(20)
                got = b""
                try:
                    for word in words:
                        stranger.sendall(word)
                    stranger.shutdown(socket.SHUT_WR)
                    while part := stranger.recv(4096):
                        got += part
                except OSError:  # it was cut off
                    pass
            # A Challenge, of which only the holder of the secret can make something, and a Refuse without a word.
            challenge, refuse = 24 + 4 + 64, frame(3, b"\x06" + bytes(12), version)
            if got[6:8] == struct.pack("<H", 9):
                got = got[challenge:]
            self.assertIn(got, (b"", refuse))
        tasks[0].says("give the same --secret_file to both")
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), want)

    def test_the_secret_is_nowhere(self):
        spec, at = self.cluster(workers=2, ps=1)
        with open(self.secret, "rb") as file:
            tasks = [self.start_task(spec, job, i, "--secret_file", self.secret, *LONG, "--set", "train.checkpoint_every=100")
                     for job, i in (("ps", 0), ("worker", 0))]
            wrong = self.start_task(spec, "worker", 1, "--secret_file", self.other)
            self.assertEqual(wrong.wait(), 6, wrong.err)
            tasks.append(self.start("run", self.run_toml, "--cluster_spec", spec, "--job_name", "worker", "--task_id", 1, "--out",
                                    self.path("out"), "--secret_fd", file.fileno(), *LONG, "--set",
                                    "train.checkpoint_every=100", pass_fds=(file.fileno(),)))
        self.wait_for_step(tasks[0], "out", 2)
        for task in tasks:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{task.pid}/{name}", "rb") as f:
                    self.assertNotIn(self.word.encode(), f.read(), name)
        self.assert_all_done(tasks)
        for task in [*tasks, wrong]:
            self.assertNotIn(self.word, task.err + task.out)
        looked = 0
        for folder, _, names in os.walk(self.path("out")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    self.assertNotIn(self.word.encode(), f.read(), name)
                looked += 1
        self.assertGreater(looked, 3, "model, metrics and checkpoints were looked at")


class Guests(SecretTest):
    def test_they_prove_it_too(self):
        spec, at = self.cluster(workers=1, ps=1)
        tasks = self.start_all(spec, [("ps", 0), ("worker", 0)], *LONG)
        self.wait_for_step(tasks[0], "out", 2)
        where = ["params", "ls", "--ps", f"127.0.0.1:{at['ps', 0]}"]
        self.assertIn("dense2.bias", self.dtrain(*where, "--secret_file", self.secret).out)
        self.assertIn("dense2.bias", self.dtrain(*where).out)  # from this host
        said = self.dtrain(*where, "--secret_file", self.other, expect=6).err
        self.assertIn("has no secret, or another one than this guest", said)
        self.assertNotIn(self.word, said)
        self.assert_all_done(tasks)


if __name__ == "__main__":
    unittest.main()
