#!/usr/bin/env python3
"""Workers that join a running job and leave it: the run ends with the hash of an undisturbed one."""
import os, re, signal, unittest

import cluster

STEPS = 1200  # enough to be in the middle of when something happens
LONG = ["--set", f"train.steps={STEPS}", "--set", "train.checkpoint_every=0", "--set", "train.log_every=1"]


class ElasticTest(cluster.DisturbedRunTest):
    FLAGS = LONG

    def start_all(self, workers, ps, *flags):
        """The ps tasks and the workers of a cluster, and a function that starts one more task."""
        self.spec, _ = self.cluster(workers, ps)
        start = lambda job, index: self.start_task(self.spec, job, index, *LONG, *flags)
        return start, [start("ps", i) for i in range(ps)], [start("worker", i) for i in range(workers)]

    def assert_in_the_middle(self):
        self.assertLess(self.steps("out")[-1], STEPS, "the run was over before it could be disturbed")

    def assert_undisturbed(self, tasks):
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), self.want)
        self.assertEqual(self.steps("out"), list(range(1, STEPS + 1)), "each step once, in order")


class Join(ElasticTest):
    def test_a_worker_that_is_not_listed(self):
        start, servers, workers = self.start_all(1, 1, "--max_workers", 4)
        self.wait_for_step(servers[0], "out", 5)
        joiner = start("worker", 3)
        servers[0].says(r"/job:worker/task:3 joins at step \d+")
        servers[0].says(r"/job:worker/task:3 computes from step \d+ on, one of 2 workers")
        # All that is left is for the one that has joined.
        workers[0].signal(signal.SIGKILL)
        servers[0].says(r"/job:worker/task:0 .*is lost")
        self.assert_in_the_middle()
        self.assert_undisturbed([*servers, joiner])

    def test_with_servers_beside_the_workers(self):
        start, _, workers = self.start_all(2, 0, "--max_workers", 3)
        self.wait_for_step(workers[0], "out", 5)
        joiner = start("worker", 2)
        workers[0].says(r"/job:worker/task:2 computes from step \d+ on, one of 3 workers")
        self.assert_in_the_middle()
        joiner.signal(signal.SIGTERM)
        self.assertEqual(joiner.wait(), 130, joiner.err)
        self.assert_undisturbed(workers)

    def test_no_worker_is_listed(self):
        port = cluster.free_ports(1)[0]
        spec = cluster.write(self.path("c.toml"), f'[jobs.ps]\ntasks = ["127.0.0.1:{port}"]\n[jobs.worker]\nmax_tasks = 5\n')
        start = lambda job, i: self.start("run", self.run_toml, "--cluster", spec, "--job_name", job, "--task_id", i,
                                          "--out", self.path("out"), *LONG)
        server, worker = start("ps", 0), start("worker", 4)
        self.wait_for_step(server, "out", 5)
        self.assert_undisturbed([server, worker])

    def test_beyond_what_the_cluster_allows(self):
        start, servers, workers = self.start_all(1, 1, "--max_workers", 3)
        self.wait_for_step(servers[0], "out", 2)
        joiner = start("worker", 3)
        self.assertEqual(joiner.wait(), 2, joiner.err)
        self.assertRegex(joiner.err, "no task /job:worker/task:3; it has .*worker 0-2")
        other = self.start_task(self.spec, "worker", 3, *LONG, "--max_workers", 9)
        self.assertEqual(other.wait(), 2, other.err)
        self.assertIn("refused this task: cluster_digest differs", other.err)
        self.assert_undisturbed([*servers, *workers])

    def test_the_same_one_twice(self):
        start, servers, workers = self.start_all(1, 1, "--max_workers", 2, "--set", "train.peer_timeout=60", "--set", "train.speculation=false")
        self.wait_for_step(servers[0], "out", 2)
        workers[0].signal(signal.SIGSTOP)  # so that the run cannot end before the second one has knocked
        self.addCleanup(workers[0].signal, signal.SIGCONT)
        first = start("worker", 1)
        servers[0].says(r"/job:worker/task:1 joins at step \d+")
        second = start("worker", 1)
        self.assertEqual(second.wait(), 2, second.err)
        self.assertRegex(second.err, "/job:worker/task:1 runs already")
        workers[0].signal(signal.SIGCONT)
        self.assert_undisturbed([*servers, *workers, first])

    def test_when_the_run_is_over(self):
        # Of one micro-batch a step the second worker computes all, so that the first one can be frozen meanwhile. The
        # coordinator then waits for it at the end.
        with_one = ["--set", "train.micro_batch=40", "--set", "train.peer_timeout=100"]
        start, servers, workers = self.start_all(2, 1, "--max_workers", 3, *with_one)
        self.wait_for_step(servers[0], "out", 2)
        workers[0].signal(signal.SIGSTOP)
        self.addCleanup(workers[0].signal, signal.SIGCONT)
        self.assertEqual(workers[1].wait(), 0, workers[1].err)
        late = start("worker", 2)
        self.assertEqual(late.wait(), 0, late.err)
        self.assertTrue(servers[0].running())
        workers[0].signal(signal.SIGCONT)
        self.assert_all_done([*servers, workers[0]])


class Leave(ElasticTest):
    def test_by_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            start, servers, workers = self.start_all(2, 2)
            self.wait_for_step(servers[0], "out", 5)
            workers[1].signal(number)
            self.assertEqual(workers[1].wait(), 130, workers[1].err)
            self.assertIn("leaves the run", workers[1].err)
            servers[0].says(r"/job:worker/task:1 .*leaves at step \d+")
            self.assertNotRegex(servers[0].err, "is lost")
            self.assert_in_the_middle()
            self.assert_undisturbed([*servers, workers[0]])
            os.rename(self.path("out"), self.path(f"out-{number}"))

    def test_under_launch(self):
        launcher = self.start("launch", self.run_toml, "--workers", 2, "--ps", 1, *LONG, "--out", self.path("out"))
        self.wait_for_step(launcher, "out", 5)
        os.kill(self.task_pid("worker", 1), signal.SIGTERM)
        launcher.says("worker/1: exit code 130; the run goes on without it")
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertRegex(launcher.err, r"/job:worker/task:1 .*leaves at step \d+")
        self.assertEqual(self.model_hash("out"), self.want)

    def test_all_of_a_launched_cluster_and_one_from_elsewhere(self):
        launcher = self.start("launch", self.run_toml, "--workers", 1, "--ps", 1, "--max_workers", 2, *LONG, "--out",
                              self.path("out"))
        spec = launcher.says(r"other workers join with: dtrain run .*--cluster_spec '([^']*)' --max_workers 2").group(1)
        self.wait_for_step(launcher, "out", 5)
        os.kill(self.task_pid("worker", 0), signal.SIGTERM)
        launcher.says("worker/0: exit code 130; the run goes on without it")
        launcher.says(r"waiting for step \d+: a worker")
        self.assert_in_the_middle()
        joiner = self.start_task(spec, "worker", 1, *LONG, "--max_workers", 2, "--secret_file", self.path("out", "secret"))
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assert_undisturbed([joiner])

    def test_coming_and_going(self):
        start, servers, workers = self.start_all(1, 2, "--max_workers", 3)
        self.wait_for_step(servers[0], "out", 2)
        for turn, number in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)):
            joiner = start("worker", 1 + turn % 2)
            joined = rf"/job:worker/task:{1 + turn % 2} computes from step"
            cluster.until(lambda: len(re.findall(joined, servers[0].err)) == 1 + turn // 2, lambda: servers[0].err)
            self.assert_in_the_middle()
            joiner.signal(number)
            self.assertEqual(joiner.wait(), 130 if number == signal.SIGTERM else -number)
        last = start("worker", 2)
        self.assert_undisturbed([*servers, *workers, last])


class CutOff(ElasticTest):
    def test_frozen_for_too_long_and_thawed(self):
        start, servers, workers = self.start_all(2, 1, "--set", "train.peer_timeout=2")
        self.wait_for_step(servers[0], "out", 5)
        for i, worker in enumerate(workers):
            worker.signal(signal.SIGSTOP)
            self.addCleanup(worker.signal, signal.SIGCONT)
        for i, worker in enumerate(workers):
            servers[0].says(rf"/job:worker/task:{i} .*is lost")
        self.assert_in_the_middle()
        for i, worker in enumerate(workers):
            worker.signal(signal.SIGCONT)
            worker.says("joins the run again, if it still goes on")
            servers[0].says(rf"/job:worker/task:{i} joins at step \d+")
        self.assert_undisturbed([*servers, *workers])

    def test_launched_ones_listen_again(self):
        launcher = self.start("launch", self.run_toml, "--workers", 2, "--ps", 1, *LONG, "--out", self.path("out"),
                              "--set", "train.peer_timeout=2")
        self.wait_for_step(launcher, "out", 5)
        pids = [self.task_pid("worker", i) for i in (0, 1)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for i in (0, 1):
            launcher.says(rf"/job:worker/task:{i} .*is lost")
        self.assert_in_the_middle()
        for i, pid in enumerate(pids):
            os.kill(pid, signal.SIGCONT)
            launcher.says(rf"/job:worker/task:{i} joins at step \d+")
        self.assertEqual(launcher.wait(), 0, launcher.err)
        self.assertEqual(self.model_hash("out"), self.want)


class Least(ElasticTest):
    def test_begins_without_all_that_are_listed(self):
        spec, _ = self.cluster(3, 1)
        flags = [*LONG, "--min_workers", 1, "--start_grace", 0.1]
        tasks = [self.start_task(spec, "ps", 0, *flags), self.start_task(spec, "worker", 2, *flags)]
        self.wait_for_step(tasks[0], "out", 5)
        tasks.append(self.start_task(spec, "worker", 0, *flags))
        tasks[0].says(r"/job:worker/task:0 joins at step \d+")
        self.assert_undisturbed(tasks)

    def test_waits_while_too_few_are_there(self):
        start, servers, workers = self.start_all(2, 1, "--min_workers", 2, "--max_workers", 3)
        self.wait_for_step(servers[0], "out", 5)
        workers[1].signal(signal.SIGKILL)
        servers[0].says(r"waiting for step \d+: at least 2 workers instead of 1, of /job:worker/task:1 .*\(\d+ s\)")
        self.assert_in_the_middle()
        joiner = start("worker", 2)
        self.assert_undisturbed([*servers, workers[0], joiner])


del ElasticTest  # it has no test of its own

if __name__ == "__main__":
    unittest.main()
