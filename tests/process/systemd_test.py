#!/usr/bin/env python3
"""The unit dtrain@.service: systemd understands all of it, it is closed to what a task does not need, and its command line
with its environment is a task that tells systemd how it is doing."""
import os, re, shlex, shutil, signal, subprocess, unittest
from cluster import DTRAIN, ROOT, ProcessTest, until, write
from notify_socket import NotifySocket

UNIT = os.path.join(ROOT, "packaging", "debian", "dtrain@.service")


def keys(section):
    """The assignments of a section of the unit, in order."""
    with open(UNIT, encoding="utf-8") as f:
        text = re.search(rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", f.read(), re.M | re.S).group(1)
    return re.findall(r"^(\w+)=(.*)$", text, re.M)


def value(section, key):
    values = [v for k, v in keys(section) if k == key]
    assert len(values) == 1, (key, values)
    return values[0]


class Unit(ProcessTest):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_understands_it(self):
        with open(UNIT, encoding="utf-8") as f:
            installed = f.read().replace("/usr/bin/dtrain", DTRAIN)
        path = write(self.path("dtrain@small.service"), installed)
        p = subprocess.run(["systemd-analyze", "verify", "--man=no", path], text=True, capture_output=True, timeout=60)
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, "", ""))
        # 10 is a service without any limit.
        p = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=25", "--no-pager", path], text=True,
                           capture_output=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)

    def test_only_what_may_pass_is_tried_again(self):
        self.assertEqual(value("Service", "Restart"), "on-failure")
        never = set(value("Service", "RestartPreventExitStatus").split())
        self.assertEqual(never, {"1", "2", "3", "5", "6", "7"})
        self.assertEqual(value("Service", "SuccessExitStatus"), "130")

    def unit_process(self, name, notify, **more):
        """Starts what systemd would start as dtrain@NAME, with /etc/dtrain and /var/lib/dtrain in the scratch folder."""
        def here(text):
            text = text.replace("%i", name)
            return text.replace("/etc/dtrain", self.path("etc")).replace("/var/lib/dtrain", self.path("var"))

        env = {**notify.environment, "WATCHDOG_USEC": "200000"}
        file = here(value("Service", "EnvironmentFile")).removeprefix("-")
        if os.path.exists(file):
            with open(file, encoding="utf-8") as f:
                env.update(line.strip().split("=", 1) for line in f)
        words = shlex.split(here(value("Service", "ExecStart")))
        self.assertEqual(words[0], "/usr/bin/dtrain")
        return self.start(*words[1:], env=env, **more)

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("etc"))
        os.mkdir(self.path("var"))

    def notify(self, name):
        socket = NotifySocket(self.path(name))
        self.addCleanup(socket.close)
        return socket

    def run_file(self, name):
        for data in ("images.idx", "labels.idx"):
            if not os.path.exists(self.path("etc", data)):
                shutil.copy(self.path(data), self.path("etc", data))
        shutil.copy(self.run_toml, self.path("etc", name + ".toml"))

    def test_a_run_in_one_process(self):
        self.run_file("small")
        notify = self.notify("notify")
        task = self.unit_process("small", notify)
        notify.hears("READY=1")
        notify.hears("STOPPING=1")
        self.assertEqual(task.wait(), 0, task.err)
        self.assertTrue(os.path.exists(self.path("var", "small", "model.safetensors")))

    def test_what_was_killed_goes_on_from_its_checkpoint(self):
        self.run_file("small")
        with open(self.path("etc", "small.toml"), "r+", encoding="utf-8") as f:
            text = f.read().replace("steps = 40", "steps = 4000").replace("checkpoint_every = 0", "checkpoint_every = 20")
            f.seek(0)
            f.write(text)
        task = self.unit_process("small", self.notify("first"))
        until(lambda: self.checkpoints("var/small"), "a checkpoint")
        task.signal(signal.SIGKILL)
        task.wait()
        notify = self.notify("second")
        task = self.unit_process("small", notify)
        notify.hears("READY=1")
        begun = self.events("var/small", "begin")
        self.assertEqual(begun[0]["step"], 0)
        self.assertGreaterEqual(begun[-1]["step"], 20)
        task.signal(signal.SIGTERM)
        self.assertEqual(task.wait(), 130, task.err)

    def test_tasks_of_a_cluster_and_the_end_that_systemd_asks_for(self):
        spec, _ = self.cluster(workers=1, ps=1)
        tasks, sockets = {}, {}
        for job in ("ps", "worker"):
            self.run_file(job)
            write(self.path("etc", job + ".env"), f"DTRAIN_CLUSTER_SPEC={spec}\nDTRAIN_JOB_NAME={job}\nDTRAIN_TASK_ID=0\n")
            with open(self.path("etc", job + ".toml"), "r+", encoding="utf-8") as f:
                text = f.read().replace("steps = 40", "steps = 1000000")
                f.seek(0)
                f.write(text)
            sockets[job] = self.notify("notify-" + job)
            tasks[job] = self.unit_process(job, sockets[job])
        for job in tasks:
            sockets[job].hears("READY=1")
            sockets[job].hears("WATCHDOG=1")
        sockets["ps"].hears(r"STATUS=step [1-9]\d* of 1000000")
        tasks["ps"].signal(getattr(signal, value("Service", "KillSignal")))
        for job, task in tasks.items():
            self.assertEqual(task.wait(), 130, task.err)
            sockets[job].hears("STOPPING=1")
        self.assertEqual(len(self.checkpoints("var/ps")), 1, "stopped with a checkpoint")


if __name__ == "__main__":
    unittest.main()
