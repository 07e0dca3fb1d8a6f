#!/usr/bin/env python3
"""What a task says to whoever started it: READY=1 when training has begun for it, what it waits for, that it lives."""
import select, signal, time, unittest
from cluster import ProcessTest, until, write
from notify_socket import NotifySocket

# One step of many micro-batches, which takes far longer than the time between two beats.
LONG_STEP = """\
name = "long"

[data.train]
format = "synthetic"
samples = 4096
classes = 10

[train]
batch = 4096
micro_batch = 32
threads = 1
steps = 1

[optimizer]
type = "sgd"
lr = 0.01

[network]
input = [3, 32, 32]
layers = [
  { type = "conv2d", filters = 32, kernel = 5, activation = "relu" },
  { type = "conv2d", filters = 32, kernel = 5, activation = "relu" },
  { type = "flatten" },
  { type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
"""


class Service(ProcessTest):
    def manager(self, name="notify", abstract=False):
        m = NotifySocket(f"@{self.path(name)}"[:100] if abstract else self.path(name))
        self.addCleanup(m.close)
        return m

    def test_a_run_in_one_process(self):
        m = self.manager()
        self.dtrain("run", self.run_toml, "--out", self.path("out"), env=m.environment)
        said = m.listen()
        self.assertEqual(said.count("READY=1"), 1, said)
        self.assertEqual(said.count("STOPPING=1"), 1, said)
        self.assertLess(said.index("READY=1"), said.index("STOPPING=1"))
        self.assertEqual(said[0], "STATUS=reading the run file and its data")
        self.assertNotIn("WATCHDOG=1", said)

    def test_ready_comes_when_the_run_begins_and_not_before(self):
        spec, _ = self.cluster(workers=2, ps=1)
        tasks, managers = {}, {}

        def start(job, index):
            name = f"{job}-{index}"
            managers[name] = self.manager(name, abstract=True)
            tasks[name] = self.start("run", self.run_toml, "--cluster_spec", spec, "--job_name", job, "--task_id", index,
                                     "--out", self.path("out"), "--set", "train.steps=4000", env=managers[name].environment)

        start("worker", 1)
        managers["worker-1"].hears(r"STATUS=waiting for /job:ps/task:0 at [\d.:]+ to be reached")
        start("ps", 0)
        managers["worker-1"].hears(r"STATUS=waiting for /job:ps/task:0 at [\d.:]+ to begin the run")
        managers["ps-0"].hears(r"STATUS=waiting for the start: /job:worker/task:0 \([\d.:]+\)")
        self.assertEqual(self.events("out", "begin"), [])
        for m in managers.values():
            self.assertEqual(m.count("READY=1"), 0, m.said)
        start("worker", 0)
        for m in managers.values():
            m.hears("READY=1")
        self.assertEqual(len(self.events("out", "begin")), 1)
        managers["ps-0"].hears(r"STATUS=step \d+ of 4000")
        managers["worker-0"].hears(r"STATUS=step \d+")
        tasks["ps-0"].signal(signal.SIGTERM)
        for name, task in tasks.items():
            self.assertEqual(task.wait(), 130, f"{name}: {task.err}")
            self.assertEqual(managers[name].count("READY=1"), 1, managers[name].said)
            self.assertEqual(managers[name].count("STOPPING=1"), 1, managers[name].said)

    def test_a_status_a_second_at_most(self):
        m = self.manager()
        task = self.start("run", self.run_toml, "--out", self.path("out"), "--set", "train.steps=100000", env=m.environment)
        began = time.monotonic()
        m.hears(r"STATUS=step \d+ of 100000")
        until(lambda: sum(s.startswith("STATUS=step") for s in m.listen()) >= 3, "three of them")
        took = time.monotonic() - began
        task.signal(signal.SIGINT)
        self.assertEqual(task.wait(), 130)
        self.assertLessEqual(sum(s.startswith("STATUS=") for s in m.listen()), took + 3, m.said)

    def test_a_long_step_of_a_single_process_is_no_hang(self):
        write(self.path("long.toml"), LONG_STEP)
        m = self.manager()
        task = self.start("run", "long.toml", "--out", self.path("out"), env={**m.environment, "WATCHDOG_USEC": "50000"})
        m.hears("STOPPING=1")
        self.assertEqual(task.wait(), 0)
        said = m.said
        within = said[said.index("READY=1"):said.index("STOPPING=1")]
        self.assertGreater(within.count("WATCHDOG=1"), 10, said)

    def test_a_watchdog_that_means_another_process(self):
        m = self.manager()
        self.dtrain("run", self.run_toml, "--out", self.path("out"),
                    env={**m.environment, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
        self.assertEqual(m.count("WATCHDOG=1"), 0)

    def test_a_task_that_stands_still_does_not_beat(self):
        m = self.manager()
        spec, _ = self.cluster(workers=1)
        task = self.start("run", self.run_toml, "--cluster_spec", spec, "--job_name", "worker", "--task_id", 0, "--out",
                          self.path("out"), "--set", "train.steps=1000000",
                          env={**m.environment, "WATCHDOG_USEC": "200000"})
        m.hears("READY=1")
        seen = m.count("WATCHDOG=1")
        until(lambda: m.count("WATCHDOG=1") > seen + 3, "beats of the event loop")
        task.signal(signal.SIGSTOP)
        with open(f"/proc/{task.pid}/status") as status:
            until(lambda: status.seek(0) == 0 and "State:\tT" in status.read(), "stopped")
        seen = m.count("WATCHDOG=1")
        self.assertFalse(select.select([m.socket], [], [], 1)[0], "a beat of a task that stands still")
        task.signal(signal.SIGCONT)
        until(lambda: m.count("WATCHDOG=1") > seen, "beats again")
        task.signal(signal.SIGINT)
        self.assertEqual(task.wait(), 130)

    def test_a_run_that_does_not_begin_is_never_ready(self):
        m = self.manager()
        self.dtrain("run", self.run_toml, "--out", self.path("out"), "--set", "train.batch=0", expect=2, env=m.environment)
        self.assertEqual(m.count("READY=1"), 0)
        self.assertEqual(m.count("STOPPING=1"), 1)

    def test_an_address_of_no_use_is_said_and_ignored(self):
        task = self.dtrain("run", self.run_toml, "--out", self.path("out"), env={"NOTIFY_SOCKET": "vsock:2:1234"})
        self.assertRegex(task.err, r"warning: the service manager hears nothing.*'vsock:2:1234' is neither")


if __name__ == "__main__":
    unittest.main()
