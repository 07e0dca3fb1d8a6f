#!/usr/bin/env python3
"""The consistency modes as real processes: those that promise the same bits keep them in every cluster and through every
fault; the others end well, say how stale they were, and can be interrupted and resumed. And a worker that is slowed tenfold."""
import os, signal, threading, time, unittest

import cluster

STEPS = 240
LOCAL = '{ type = "local", steps = 4 }'
FRESH = '{ type = "stale", bound = 0 }'
LOOSE = {"async": "async", "bounded": '{ type = "async", most_lag = 8, delay_compensation = 0.04, push_every = 2, fetch_every = 2 }',
         "backup": '{ type = "backup", needed = 4 }', "stale": '{ type = "stale", bound = 2 }'}


class ConsistencyTest(cluster.ProcessTest):
    known = {}  # hashes, by what was trained

    def mode(self, mode, steps=STEPS, extra=()):
        return ["--set", f"train.consistency={mode}", "--set", f"train.steps={steps}", "--set", "train.log_every=1",
                *[a for e in extra for a in ("--set", e)]]

    def hash_of(self, mode, *args):
        """Of a run in one process."""
        key = (mode, args)
        if key not in self.known:
            self.known[key] = self.train(*self.mode(mode, *args), out=f"alone{len(self.known)}")
        return self.known[key]

    def launch(self, mode, *shape, out="out", steps=STEPS, extra=()):
        return self.start("launch", self.run_toml, *shape, *self.mode(mode, steps, extra), "--out", self.path(out))

    def kill_one(self, launcher, worker, out="out", at=5):
        self.wait_for_step(launcher, out, at)
        os.kill(self.task_pid("worker", worker), signal.SIGKILL)
        launcher.says(f"job:worker/task:{worker} .*is lost")


class SameBits(ConsistencyTest):
    def test_a_bound_of_nothing_is_synchronous(self):
        want = self.hash_of("sync")
        self.assertEqual(self.hash_of(FRESH), want)
        self.assertEqual(self.train("--workers", 2, "--ps", 1, *self.mode(FRESH), out="two"), want)

    def test_a_bound_of_nothing_with_a_worker_killed(self):
        launcher = self.launch(FRESH, "--workers", 3, "--ps", 1, steps=1200)
        self.kill_one(launcher, 1)
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertEqual(self.model_hash("out"), self.hash_of("sync", 1200))

    def test_local_steps_in_any_cluster(self):
        want = self.hash_of(LOCAL)
        self.assertNotEqual(want, self.hash_of("sync"))
        self.assertEqual(self.train("--workers", 2, "--ps", 1, *self.mode(LOCAL), out="two"), want)
        self.assertEqual(self.train("--workers", 3, *self.mode(LOCAL), out="beside"), want)
        rows = self.steps("two")
        self.assertEqual(rows, list(range(4, STEPS + 1, 4)), "a row for each round")

    def test_local_steps_with_a_worker_killed(self):
        launcher = self.launch(LOCAL, "--workers", 3, "--ps", 1, steps=2000)
        self.kill_one(launcher, 2)
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertEqual(self.model_hash("out"), self.hash_of(LOCAL, 2000))

    def test_local_steps_interrupted_and_resumed(self):
        launcher = self.launch(LOCAL, "--workers", 2, "--ps", 1, steps=2000)
        self.wait_for_step(launcher, "out", 40)
        launcher.signal(signal.SIGINT)
        self.assertEqual(launcher.wait(), 130, launcher.err)
        self.assertEqual(self.steps("out")[-1] % 4, 0)
        self.dtrain("launch", self.run_toml, "--workers", 3, *self.mode(LOCAL, 2000), "--out", self.path("out"), "--resume")
        self.assertEqual(self.model_hash("out"), self.hash_of(LOCAL, 2000))


class Loose(ConsistencyTest):
    """Modes in which the result depends on who was faster."""

    def assert_ended(self, out, steps):
        rows = [row for row in self.rows(out) if "event" not in row]
        self.assertEqual([row["step"] for row in rows], list(range(1, steps + 1)), "each step once, in order")
        for row in rows:
            self.assertLessEqual({"lag_mean", "lag_p99", "dropped"}, set(row))
            self.assertGreaterEqual(row["lag_p99"] + 1, row["lag_mean"])
        end = self.events(out, "end")[-1]
        self.assertLessEqual({"lag_mean", "lag_p99", "dropped"}, set(end))
        self.assertEqual(self.model_hash(out), end["model"])
        # It has learnt: chance is -ln(0.1), 2.3.
        self.assertLess(sum(row["loss"] for row in rows[-20:]) / 20, 1.6)

    def test_they_end_well(self):
        for name, mode in LOOSE.items():
            with self.subTest(name):
                launcher = self.launch(mode, "--workers", 3, "--ps", 2, out=name)
                self.assertEqual(launcher.wait(), 0, launcher.err)
                self.assert_ended(name, STEPS)

    def test_alone_and_beside_the_servers(self):
        for name, mode in LOOSE.items():
            with self.subTest(name):
                self.train(*self.mode(mode), out=f"{name}-alone")
                self.assert_ended(f"{name}-alone", STEPS)
                self.train("--workers", 2, *self.mode(mode), out=f"{name}-beside")
                self.assert_ended(f"{name}-beside", STEPS)

    def test_a_worker_is_killed(self):
        for name, mode in LOOSE.items():
            with self.subTest(name):
                launcher = self.launch(mode, "--workers", 3, "--ps", 2, out=name, steps=1200)
                self.kill_one(launcher, 1, out=name)
                self.assertEqual(launcher.wait(), 0, launcher.err)
                self.assert_ended(name, 1200)

    def test_interrupted_and_resumed(self):
        for name, mode in LOOSE.items():
            with self.subTest(name):
                launcher = self.launch(mode, "--workers", 2, "--ps", 1, out=name, steps=1200)
                self.wait_for_step(launcher, name, 30)
                launcher.signal(signal.SIGINT)
                self.assertEqual(launcher.wait(), 130, launcher.err)
                reached = self.steps(name)[-1]
                self.assertEqual(self.checkpoints(name)[-1], f"step-{reached:08d}")
                self.dtrain("launch", self.run_toml, "--workers", 3, "--ps", 1, *self.mode(mode, 1200), "--out",
                            self.path(name), "--resume")
                self.assert_ended(name, 1200)


class Refused(ConsistencyTest):
    def refuse(self, reason, *sets, command=("run",)):
        ran = self.dtrain(*command, self.run_toml, *[a for s in sets for a in ("--set", s)], "--out", self.path("no"),
                          expect=2)
        self.assertRegex(ran.err, reason)
        self.assertFalse(os.path.exists(self.path("no")), "nothing has been started")

    def test_before_anything_starts(self):
        for mode in LOOSE.values():
            self.refuse("'speculation' in .train. is not for", f"train.consistency={mode}", "train.speculation=true")
            self.refuse("'reproducible' in .train. is true", f"train.consistency={mode}", "train.reproducible=true")
        self.refuse("did you mean 'stale'", "train.consistency=stail")
        self.refuse("'bound'", 'train.consistency={ type = "stale", bound = -1 }')
        self.refuse("'needed' = 6 .*only 5", 'train.consistency={ type = "backup", needed = 6 }')
        self.refuse("needs 6 pushes", 'train.consistency={ type = "backup", needed = 6 }', "train.micro_batch=auto")
        self.refuse("multiple of the 3 local steps", 'train.consistency={ type = "local", steps = 3 }')
        self.refuse("is for consistency = 'local' only", "outer_optimizer.lr=0.5")


class Straggler(ConsistencyTest):
    """One of four workers gets a tenth of the time."""

    def slow(self, name, extra):
        steps = 150
        launcher = self.launch(extra.pop("mode", "sync"), "--workers", 4, "--ps", 1, out=name, steps=steps,
                               extra=["train.micro_batch=5", *(f"{k}={v}" for k, v in extra.items())])
        self.wait_for_step(launcher, name, 3)
        pid, over = self.task_pid("worker", 3), threading.Event()

        def cycle():
            try:
                while not over.is_set():
                    os.kill(pid, signal.SIGSTOP)
                    over.wait(0.18)  # this is the load, not a wait for anything
                    os.kill(pid, signal.SIGCONT)
                    over.wait(0.02)
            except ProcessLookupError:
                pass  # the run is over

        thread = threading.Thread(target=cycle)
        began, first = time.monotonic(), self.steps(name)[-1]
        thread.start()
        try:
            until = lambda: not launcher.running() or self.steps(name)[-1:] == [steps]
            cluster.until(until, lambda: f"the end of {name}, at {self.steps(name)[-1:]}\n{launcher.err}")
            took = time.monotonic() - began
        finally:
            over.set()
            thread.join()
        self.assertEqual(launcher.wait(), 0, launcher.err)
        return 1e3 * took / max(1, steps - first), launcher.err

    def test_step_times_and_hashes(self):
        alone = self.train(*self.mode("sync", 150, ["train.micro_batch=5"]), out="alone")
        plain, _ = self.slow("plain", {"train.speculation": "false"})
        helped, said = self.slow("helped", {"train.speculation": "true"})
        backup, _ = self.slow("backup", {"mode": '{ type = "backup", needed = 6 }'})
        print(f"\none of four workers slowed tenfold: ms a step\n  sync                   {plain:8.1f}\n"
              f"  sync with speculation  {helped:8.1f}\n  backup, 6 of 8         {backup:8.1f}")
        self.assertEqual(self.model_hash("plain"), alone)
        self.assertEqual(self.model_hash("helped"), alone)
        self.assertRegex(said, "others compute its share as well")


if __name__ == "__main__":
    unittest.main()
