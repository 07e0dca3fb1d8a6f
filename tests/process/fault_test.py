#!/usr/bin/env python3
"""Real processes that are killed, interrupted and started again: the run ends with the undisturbed hash, or everybody
stops in time and says why."""
import os, signal, time, unittest

import cluster

STEPS = 1200  # enough to be in the middle of when something happens
LONG = ["--set", f"train.steps={STEPS}", "--set", "train.checkpoint_every=100", "--set", "train.log_every=1"]


class FaultTest(cluster.DisturbedRunTest):
    FLAGS = LONG

    def launch(self, *shape, out="out", extra=()):
        return self.start("launch", self.run_toml, *shape, *LONG, *extra, "--out", self.path(out))

    def assert_in_the_middle(self, out="out"):
        self.assertLess(self.steps(out)[-1], STEPS, "the run was over before the fault")

    def resume(self, *shape, out="out"):
        self.dtrain("launch" if shape else "run", self.run_toml, *shape, *LONG, "--out", self.path(out), "--resume")
        self.assertEqual(self.steps(out), list(range(1, STEPS + 1)), "each step has one row")
        self.assertEqual(self.model_hash(out), self.want)


class LostWorker(FaultTest):
    def kill_one(self, worker, ps):
        launcher = self.launch("--workers", 3, "--ps", ps)
        self.wait_for_step(launcher, "out", 5)
        os.kill(self.task_pid("worker", worker), signal.SIGKILL)
        launcher.says(f"job:worker/task:{worker} .*is lost")
        self.assert_in_the_middle()
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertEqual(self.model_hash("out"), self.want)
        self.assertRegex(launcher.err, rf"worker/{worker}: killed by signal 9.*; the run goes on without it")
        self.assertEqual(self.steps("out"), list(range(1, STEPS + 1)), "each step once, in order")

    def test_one_of_three(self):
        self.kill_one(worker=1, ps=1)

    def test_the_first_one_with_two_servers(self):
        self.kill_one(worker=0, ps=2)

    def test_two_of_three_one_after_the_other(self):
        launcher = self.launch("--workers", 3, "--ps", 1)
        for worker in (2, 0):
            self.wait_for_step(launcher, "out", 5 if worker else 100)
            os.kill(self.task_pid("worker", worker), signal.SIGKILL)
            launcher.says(f"job:worker/task:{worker} .*is lost")
        self.assert_in_the_middle()
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertEqual(self.model_hash("out"), self.want)

    def test_frozen(self):
        # peer_timeout is in the run file, so that all tasks have the same. Others who compute its share would be done
        # before it is given up.
        launcher = self.launch("--workers", 2, "--ps", 1,
                               extra=["--set", "train.peer_timeout=2", "--set", "train.speculation=false"])
        self.wait_for_step(launcher, "out", 5)
        pid = self.task_pid("worker", 1)
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(continue_if_there, pid)
        launcher.says("job:worker/task:1 .*is lost")
        self.assert_in_the_middle()
        cluster.until(lambda: self.events("out", "end"), lambda: f"the end, without the frozen worker\n{launcher.err}")
        continue_if_there(pid)
        launcher.wait()
        self.assertEqual(self.model_hash("out"), self.want)

    def test_all_killed_and_one_started_again(self):
        spec, _ = self.cluster(workers=2, ps=1)
        server = self.start_task(spec, "ps", 0, *LONG)
        workers = [self.start_task(spec, "worker", i, *LONG) for i in (0, 1)]
        self.wait_for_step(server, "out", 5)
        for worker in workers:
            worker.signal(signal.SIGKILL)
        server.says(r"waiting for step \d+: a worker, of /job:worker/task:0 \(127\.0\.0\.1:\d+\)")
        self.assert_in_the_middle()
        again = self.start_task(spec, "worker", 1, *LONG)
        server.says(r"job:worker/task:1 joins at step \d+")
        self.assert_all_done([server, again])
        self.assertEqual(self.model_hash("out"), self.want)

    def test_killed_and_started_again_beside_a_living_one(self):
        spec, _ = self.cluster(workers=2, ps=2)
        servers = [self.start_task(spec, "ps", i, *LONG) for i in (0, 1)]
        living, killed = [self.start_task(spec, "worker", i, *LONG) for i in (0, 1)]
        self.wait_for_step(servers[0], "out", 5)
        killed.signal(signal.SIGKILL)
        servers[0].says("job:worker/task:1 .*is lost")
        # Held, so that the run is not over before the other one is there again.
        living.signal(signal.SIGSTOP)
        self.addCleanup(continue_if_there, living.pid)
        again = self.start_task(spec, "worker", 1, *LONG)
        servers[0].says(r"job:worker/task:1 joins at step \d+")
        living.signal(signal.SIGCONT)
        self.assert_all_done([*servers, living, again])
        self.assertEqual(self.model_hash("out"), self.want)


class LostServer(FaultTest):
    def kill_and_resume(self, shape, victim, resumed_as):
        launcher = self.launch(*shape)
        cluster.until(lambda: self.checkpoints("out"), lambda: f"a checkpoint\n{launcher.err}")
        pid = self.task_pid(*victim)
        os.kill(pid, signal.SIGKILL)
        at = time.monotonic()
        self.assertEqual(launcher.wait(30), 4, launcher.err)
        self.assertLess(time.monotonic() - at, 10, "all have stopped within 10 s")
        self.assert_no_process_left(0)
        self.assert_in_the_middle()
        name = "/".join(map(str, victim))
        self.assertIn(f"first failure: {name}, killed by signal 9", launcher.err)
        # The others know whom they have lost, too.
        self.assertRegex(launcher.err, rf"lost.*/job:{victim[0]}/task:{victim[1]}|/job:{victim[0]}/task:{victim[1]}.*lost")
        self.resume(*resumed_as)

    def test_second_ps(self):
        self.kill_and_resume(["--workers", 2, "--ps", 2], ("ps", 1), ["--workers", 3, "--ps", 1])

    def test_coordinator(self):
        self.kill_and_resume(["--workers", 2, "--ps", 2], ("ps", 0), ["--workers", 1, "--ps", 3])

    def test_worker_with_a_server_beside_it(self):
        self.kill_and_resume(["--workers", 3], ("worker", 2), ["--workers", 2, "--ps", 2])

    def test_worker_that_coordinates(self):
        self.kill_and_resume(["--workers", 2], ("worker", 0), [])

    def test_by_hand(self):
        spec, _ = self.cluster(workers=2, ps=2)
        tasks = {(job, i): self.start_task(spec, job, i, *LONG) for job in ("ps", "worker") for i in (0, 1)}
        cluster.until(lambda: self.checkpoints("out"), lambda: f"a checkpoint\n{tasks['ps', 0].err}")
        tasks.pop(("ps", 1)).signal(signal.SIGKILL)
        at = time.monotonic()
        for task in tasks.values():
            self.assertEqual(task.wait(30), 4, f"{task}\n{task.err}")
            self.assertRegex(task.err, r"/job:ps/task:1.*127\.0\.0\.1:\d+")
        self.assertLess(time.monotonic() - at, 10)
        self.assert_in_the_middle()
        self.assertEqual(self.events("out", "stopped")[-1]["exit_code"], 4)
        self.resume()


class KilledLauncher(FaultTest):
    def killed(self, *shape):
        launcher = self.launch(*shape)
        self.wait_for_step(launcher, "out", 5)
        self.assertGreater(len(cluster.processes_with(self.dir)), 2)
        launcher.signal(signal.SIGKILL)
        launcher.wait()
        self.assert_no_process_left(5)
        self.assert_in_the_middle()

    def test_with_servers(self):
        self.killed("--workers", 2, "--ps", 1)

    def test_servers_beside_the_workers(self):
        self.killed("--workers", 2)

    def test_before_training_begins(self):
        launcher = self.launch("--workers", 2, "--ps", 2)
        cluster.until(lambda: len(cluster.processes_with(self.dir)) >= 3, "the first tasks are there")
        launcher.signal(signal.SIGKILL)
        launcher.wait()
        self.assert_no_process_left(5)


class Interrupted(FaultTest):
    def interrupt(self, process, number):
        self.wait_for_step(process, "out", 5)
        process.signal(number)
        at = time.monotonic()
        self.assertEqual(process.wait(30), 130, process.err)
        self.assertLess(time.monotonic() - at, 5, "gone within 5 s")
        self.assert_no_process_left(0)
        self.assert_in_the_middle()
        last = self.steps("out")[-1]
        self.assertEqual(self.checkpoints("out")[-1], f"step-{last:08}", "a checkpoint of the last step")
        self.assertFalse(os.path.exists(self.path("out", "model.safetensors")))

    def test_ctrl_c(self):
        self.interrupt(self.launch("--workers", 2, "--ps", 1), signal.SIGINT)
        self.resume("--workers", 3)

    def test_ctrl_c_with_servers_beside_the_workers(self):
        self.interrupt(self.launch("--workers", 2), signal.SIGINT)
        self.resume()

    def test_sigterm(self):
        self.interrupt(self.launch("--workers", 1, "--ps", 2), signal.SIGTERM)
        self.resume("--workers", 2, "--ps", 2)

    def test_one_process(self):
        for out_is_old, number in enumerate((signal.SIGINT, signal.SIGTERM)):
            resumed = ["--resume"] if out_is_old else []
            before = self.steps("out")[-1] if out_is_old else 0
            process = self.start("run", self.run_toml, *LONG, "--out", self.path("out"), *resumed)
            self.wait_for_step(process, "out", before + 5)
            process.signal(number)
            self.assertEqual(process.wait(), 130, process.err)
            self.assertEqual(self.checkpoints("out")[-1], f"step-{self.steps('out')[-1]:08}")
        self.assert_in_the_middle()
        self.resume("--workers", 2, "--ps", 1)

    def test_twice_ends_at_once(self):
        launcher = self.launch("--workers", 2, "--ps", 1)
        self.wait_for_step(launcher, "out", 5)
        launcher.signal(signal.SIGINT)
        launcher.signal(signal.SIGINT)
        self.assertEqual(launcher.wait(5), 130, launcher.err)
        self.assert_no_process_left(0)

    def test_before_training_begins(self):
        launcher = self.launch("--workers", 2, "--ps", 2)
        cluster.until(lambda: len(cluster.processes_with(self.dir)) >= 5, "all tasks are there")
        launcher.signal(signal.SIGINT)
        self.assertEqual(launcher.wait(5), 130, launcher.err)
        self.assert_no_process_left(0)


def continue_if_there(pid):
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


del FaultTest  # it has no test of its own

if __name__ == "__main__":
    unittest.main()
