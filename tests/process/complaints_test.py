#!/usr/bin/env python3
"""What users of distributed TensorFlow, MXNet, ps-lite, Paddle, Horovod, PyTorch, Ray, LightGBM and others complained of in
public threads about launching, ports, names, ends and logs: each test names the threads. Those about ssh are in
ssh_test.py and far_hosts_test.py, in the same manner."""
import os, re, signal, socket, time, unittest

import cluster

LONG = ["--set", "train.steps=100000", "--set", "train.log_every=1"]


def listening(port):
    """The addresses at which somebody listens at this port, by /proc/net/tcp."""
    found = set()
    with open("/proc/net/tcp") as f:
        for line in f.readlines()[1:]:
            words = line.split()
            address, at = words[1].split(":")
            if int(at, 16) == port and words[3] == "0A":
                found.add(socket.inet_ntoa(bytes.fromhex(address)[::-1]))
    return found


class Addresses(cluster.ProcessTest):
    def test_the_address_that_is_given_and_no_other(self):
        """dmlc-core 364, apache/mxnet 12062: the wrong network card."""
        port = cluster.free_ports(1)[0]
        p = self.start("run", self.run_toml, "--cluster_spec", f"worker|127.0.0.7:{port}", "--max_workers", 2, "--min_workers",
                       1, "--start_grace", 0, "--job_name", "worker", "--task_id", 0, "--out", self.path("out"), *LONG)
        self.wait_for_step(p, "out", 1)
        self.assertEqual(listening(port), {"127.0.0.7"})
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)

    def test_names_do_as_well(self):
        """ps-lite 139: names did not bind, only numbers did."""
        want = self.train(out="one")
        a, b = cluster.free_ports(2)
        spec = f"ps|localhost:{a},worker|localhost:{b}"
        self.assert_all_done([self.start_task(spec, job, 0) for job in ("ps", "worker")])
        self.assertEqual(self.model_hash("out"), want)

    def test_the_same_ports_at_once(self):
        """pytorch 126510, LightGBM 3753: "address already in use" when the job is run again, or after it was killed."""
        spec, at = self.cluster(workers=2, ps=1)
        for n in range(3):
            tasks = [self.start_task(spec, job, i, *LONG, out=f"out{n}") for job, i in at]
            self.wait_for_step(tasks[[*at].index(("ps", 0))], f"out{n}", 1)
            for task in tasks:
                task.signal(signal.SIGKILL)
            for task in tasks:
                task.wait()

    def test_who_has_the_port(self):
        """LightGBM 4960: a port in use, and no word of whose it is."""
        spec, at = self.cluster(workers=1, ps=1)
        first = self.start_task(spec, "ps", 0)
        first.says("waiting for")
        second = self.start_task(spec, "ps", 0, out="other")
        self.assertEqual(second.wait(), 2, second.err)
        self.assertRegex(second.err, rf"port {at['ps', 0]} of 127\.0\.0\.1 is in use by process {first.pid} \(.*--job_name ps")


class Starts(cluster.ProcessTest):
    def test_it_says_for_whom_it_waits_and_what_came_back(self):
        """tensorflow 12745 and 19907, Paddle 10153: "still waiting", and not for whom, though the peer answers telnet."""
        spec, at = self.cluster(workers=1, ps=1)
        worker = self.start_task(spec, "worker", 0)
        worker.says(rf"waiting for [^\n]*/job:ps/task:0[^\n]*127\.0\.0\.1:{at['ps', 0]}[^\n]*[Rr]efused")
        worker.signal(signal.SIGKILL)
        worker.wait()

    def test_the_last_one_wakes_the_others(self):
        """tensorflow 11753: workers polled every 30 s, and began late."""
        spec, at = self.cluster(workers=2, ps=1)
        tasks = [self.start_task(spec, job, 0, *LONG) for job in ("ps", "worker")]
        tasks[0].says("waiting for the start: /job:worker/task:1")
        begin = time.monotonic()
        tasks.append(self.start_task(spec, "worker", 1, *LONG))
        self.wait_for_step(tasks[0], "out", 1)
        self.assertLess(time.monotonic() - begin, 20)
        tasks[0].signal(signal.SIGINT)
        for task in tasks:
            self.assertEqual(task.wait(), 130, task.err)

    def test_a_failure_before_the_first_step(self):
        """ray 22511: what failed before the first synchronisation left the others hanging for half an hour."""
        # One that cannot be ready: its share of the host's memory ends in the middle of its start.
        begin = time.monotonic()
        p = self.start("launch", self.run_toml, "--workers", 2, "--ps", 1, *LONG, "--set", "train.threads=1024", "--out",
                       self.path("out"), within=["prlimit", "--nproc=8:8"] if os.geteuid() else ["prlimit", "--as=400000000"])
        self.assertNotEqual(p.wait(60), 0, p.err)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertTrue(p.err)
        self.assert_no_process_left(5)

    def test_more_servers_than_parameters(self):
        """Paddle 2224: with more servers than parameters it waited for ever."""
        want = self.train(out="one")
        self.assertEqual(self.train("--workers", 1, "--ps", 12, out="many"), want)

    def test_a_misspelt_key(self):
        """DeepSpeed 774, xgboost 4043: a misspelt key was ignored."""
        p = self.dtrain("launch", self.run_toml, "--workers", 2, "--set", "optimizer.momentun=0.9", "--out", self.path("out"),
                        expect=2)
        self.assertRegex(p.err, r"unknown key 'momentun'")
        self.assertFalse(os.path.exists(self.path("out")))


class Ends(cluster.ProcessTest):
    def test_the_run_ends_as_a_whole(self):
        """apache/mxnet 2412, tensorflow 16213: the first worker to finish stopped the servers, or froze the rest. tensorflow
        4713, apache/mxnet 3787 and 21005: servers never ended."""
        want = self.train(out="one")
        spec, at = self.cluster(workers=3, ps=2)  # five micro-batches: shares are not even
        self.assert_all_done([self.start_task(spec, job, i) for job, i in at])
        self.assertEqual(self.model_hash("out"), want)
        self.assert_no_process_left(5)

    def test_the_others_do_not_run_on(self):
        """horovod 3494, pytorch 146371: peers ran on, or dead-locked, after a failure. DeepSpeed 1722: code 0 although nodes
        failed. pytorch 60910: the first failure was buried."""
        p = self.start("launch", self.run_toml, "--workers", 3, *LONG, "--out", self.path("out"))
        self.wait_for_step(p, "out", 2)
        os.kill(self.task_pid("worker", 1), signal.SIGKILL)
        self.assertEqual(p.wait(), 4, p.err)
        self.assertEqual(len(re.findall(r"first failure: worker/1, killed by signal 9", p.err)), 1, p.err)
        self.assert_no_process_left(5)


class Logs(cluster.ProcessTest):
    def test_no_bars_in_files(self):
        """Lightning 6647: progress bars filled the log file."""
        self.dtrain("launch", self.run_toml, "--workers", 2, "--ps", 1, "--progress", "always", "--set", "train.log_every=1", "--out",
                    self.path("out"))
        with open(self.path("out", "logs", "ps-0.log"), "rb") as f:
            log = f.read()
        self.assertIn(b"done: 40 steps", log)
        self.assertNotIn(b"\r", log)
        self.assertNotIn(b"\x1b", log)


if __name__ == "__main__":
    unittest.main()
