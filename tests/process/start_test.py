#!/usr/bin/env python3
"""Tasks that are started by hand: in any order, with the wrong file, on a port in use, with strangers at the door."""
import json, os, random, re, signal, socket, unittest

import cluster

LONG = ["--set", "train.steps=1200", "--set", "train.log_every=1"]


class AnyOrder(cluster.ProcessTest):
    def start_one_after_the_other(self, order, workers, ps):
        """The next one starts when one before has said for which of the absent ones it waits, and where."""
        want = self.train(out="one")
        spec, at = self.cluster(workers, ps)
        tasks = {}
        for n, (job, index) in enumerate(order):
            absent, known = order[n:], {said_by: len(task.err) for said_by, task in tasks.items()}

            def somebody_waits():
                # Where: at the address that is dialled, or that of the one who says so where the absent one must dial.
                return any(re.search(rf"waiting for [^\n]*/job:{j}/task:{i}\b[^\n]*127\.0\.0\.1:({at[j, i]}|{at[said_by]})\b",
                                     task.err[known[said_by]:])
                           for said_by, task in tasks.items() for j, i in absent)
            if tasks:
                cluster.until(somebody_waits, lambda: f"one of {absent} is waited for: {[t.err for t in tasks.values()]}")
            tasks[job, index] = self.start_task(spec, job, index)
        self.assert_all_done(tasks.values())
        for task in tasks:
            silent = task == (("ps", 0) if ps else ("worker", 0))  # the coordinator reports on the run itself
            for said in ("the run begins", "the run is done"):
                self.assertEqual(tasks[task].err.count(said), 0 if silent else 1, tasks[task].err)
        self.assert_no_process_left(5)
        self.assertEqual(self.model_hash("out"), want)

    def test_servers_first(self):
        self.start_one_after_the_other([("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1)], 2, 2)

    def test_workers_first(self):
        self.start_one_after_the_other([("worker", 1), ("worker", 0), ("ps", 1), ("ps", 0)], 2, 2)

    def test_servers_beside_the_workers(self):
        self.start_one_after_the_other([("worker", 2), ("worker", 0), ("worker", 1)], 3, 0)

    def test_cluster_file_and_host_lists(self):
        want = self.train(out="one")
        ps, worker = cluster.free_ports(2)
        spec = cluster.write(self.path("c.toml"), f'name = "two"\n[jobs.ps]\ntasks = ["127.0.0.1:{ps}"]\n'
                                                  f'[jobs.worker]\ntasks = ["localhost:{worker}"]\n')
        self.assert_all_done([self.start("run", self.run_toml, "--cluster", spec, "--job_name", job, "--task_id", 0, "--out",
                                         self.path("file")) for job in ("worker", "ps")])
        self.assertEqual(self.model_hash("file"), want)
        hosts = ["--ps_hosts", f"127.0.0.1:{ps}", "--worker_hosts", f"127.0.0.1:{worker}"]
        self.assert_all_done([self.start("run", self.run_toml, *hosts, "--job_name", job, "--task_index", 0, "--out",
                                         self.path("lists")) for job in ("worker", "ps")])
        self.assertEqual(self.model_hash("lists"), want)

    def test_tensorflows_environment(self):
        want = self.train(out="one")
        spec = {"chief": [f"127.0.0.1:{p}" for p in cluster.free_ports(1)], "worker": [], "ps": []}
        ports = cluster.free_ports(3)
        spec["worker"], spec["ps"] = [f"127.0.0.1:{ports[0]}"], [f"127.0.0.1:{p}" for p in ports[1:]]
        tasks = [self.start("run", self.run_toml, "--out", self.path("tf"), env={"TF_CONFIG": json.dumps(
            {"cluster": spec, "task": {"type": job, "index": index}})})
            for job, index in (("worker", 0), ("ps", 1), ("chief", 0), ("ps", 0))]
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("tf"), want)
        self.assertIn("/job:worker/task:1: the cluster and this task are those of TF_CONFIG", tasks[0].err)
        # Flags go before it, and without a cluster there is one process.
        flags = ["--cluster_spec", f"worker|127.0.0.1:{ports[0]}", "--job_name", "worker", "--task_id", "0"]
        self.dtrain("run", self.run_toml, *flags, "--out", self.path("flags"), env={"TF_CONFIG": "{"})
        self.dtrain("run", self.run_toml, "--out", self.path("solo"), env={"TF_CONFIG": "{}"})
        self.assertEqual(self.model_hash("solo"), want)
        bad = self.dtrain("run", self.run_toml, "--out", self.path("bad"), env={"TF_CONFIG": "{"}, expect=2)
        self.assertIn("TF_CONFIG in the environment: it is no JSON object", bad.err)
        self.assertFalse(os.path.exists(self.path("bad")))

    def test_launch_takes_a_cluster_file(self):
        want = self.train(out="one")
        a, b, c = cluster.free_ports(3)
        spec = cluster.write(self.path("c.toml"), f'[jobs.ps]\ntasks = ["127.0.0.1:{a}"]\n'
                                                  f'[jobs.worker]\ntasks = ["127.0.0.1:{b}", "127.0.0.1:{c}"]\n')
        self.dtrain("launch", self.run_toml, "--cluster", spec, "--out", self.path("out"))
        self.assertEqual(self.model_hash("out"), want)
        # Once more at once on the same ports: nothing of the first run is in the way.
        self.dtrain("launch", self.run_toml, "--cluster", spec, "--out", self.path("again"))
        self.assertEqual(self.model_hash("again"), want)

    def test_missing_task(self):
        spec, at = self.cluster(workers=2, ps=1)
        patience = ["--set", "train.start_timeout=3"]
        tasks = [self.start_task(spec, job, 0, *patience) for job in ("ps", "worker")]
        for task in tasks:
            self.assertEqual(task.wait(60), 4, task.err)
        self.assertRegex(tasks[0].err, rf"waited \d+ s for .*/job:worker/task:1 \(127.0.0.1:{at['worker', 1]}\)")
        self.assertNotRegex(tasks[0].err, r"waited \d+ s for .*/job:worker/task:0")
        self.assertFalse(self.steps("out"))

    def test_nobody_else_comes(self):
        spec, at = self.cluster(workers=1, ps=1)
        task = self.start_task(spec, "worker", 0, "--set", "train.start_timeout=2")
        self.assertEqual(task.wait(60), 4, task.err)
        self.assertRegex(task.err, rf"/job:ps/task:0 .*127.0.0.1:{at['ps', 0]}")


class Refused(cluster.ProcessTest):
    def refuse(self, field, *wrong, run=None):
        """A worker that differs is refused; the others wait on, and go when the right one comes."""
        want = self.train(out="one")
        spec, _ = self.cluster(workers=2, ps=1)
        server, first = [self.start_task(spec, job, 0) for job in ("ps", "worker")]
        server.says(r"waiting for the start: /job:worker/task:1 \(")  # and for no other
        other = self.start_task(spec, "worker", 1, *wrong, run=run)
        self.assertEqual(other.wait(), 2, other.err)
        self.assertRegex(other.err, rf"/job:ps/task:0 \(127\.0\.0\.1:\d+\) refused this task: {field} differs: .+ there, .+ here")
        server.says(rf"refused a task at .+: {field} differs: .+ here, .+ there")
        self.assertTrue(server.running() and first.running())
        right = self.start_task(spec, "worker", 1)
        self.assert_all_done([server, first, right])
        self.assertEqual(self.model_hash("out"), want)

    def test_another_rate(self):
        self.refuse("run_digest", "--set", "optimizer.lr=0.003")

    def test_another_network(self):
        text = cluster.RUN.replace("filters = 6", "filters = 7")
        self.refuse("run_digest", run=cluster.write(self.path("other.toml"), text))

    def test_other_data(self):
        os.mkdir(self.path("elsewhere"))
        cluster.write_images(self.path("elsewhere"), seed=4)
        run = cluster.write(self.path("elsewhere", "run.toml"), cluster.RUN)
        self.refuse("data_digest", run=run)

    def test_the_same_data_elsewhere_are_welcome(self):
        want = self.train(out="one")
        os.mkdir(self.path("elsewhere"))
        cluster.write_images(self.path("elsewhere"))
        run = cluster.write(self.path("elsewhere", "run.toml"), cluster.RUN)
        spec, _ = self.cluster(workers=1, ps=1)
        self.assert_all_done([self.start_task(spec, "ps", 0), self.start_task(spec, "worker", 0, run=run)])
        self.assertEqual(self.model_hash("out"), want)

    def test_another_cluster(self):
        spec, at = self.cluster(workers=2, ps=1)
        server = self.start_task(spec, "ps", 0)
        server.says("waiting for")
        fewer = f"ps|127.0.0.1:{at['ps', 0]},worker|127.0.0.1:{at['worker', 0]}"
        other = self.start_task(fewer, "worker", 0)
        self.assertEqual(other.wait(), 2, other.err)
        self.assertIn("cluster_digest", other.err)
        self.assertTrue(server.running())

    def test_second_incarnation_of_a_living_task(self):
        want = self.train(*LONG, out="one")
        spec, at = self.cluster(workers=2, ps=1)
        tasks = [self.start_task(spec, *task, *LONG) for task in (("ps", 0), ("worker", 0), ("worker", 1))]
        self.wait_for_step(tasks[0], "out", 5)
        second = self.start_task(spec, "worker", 1, *LONG)
        # On the same host it finds the port in use already.
        self.assertEqual(second.wait(), 2, second.err)
        self.assertIn(str(at["worker", 1]), second.err)
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), want)

    def test_second_incarnation_from_elsewhere(self):
        want = self.train(*LONG, out="one")
        spec, _ = self.cluster(workers=2, ps=1)
        patient = [*LONG, "--set", "train.peer_timeout=60", "--set", "train.speculation=false"]
        tasks = [self.start_task(spec, *task, *patient) for task in (("ps", 0), ("worker", 0), ("worker", 1))]
        self.wait_for_step(tasks[0], "out", 5)
        tasks[1].signal(signal.SIGSTOP)  # so that the run cannot end before the second one has knocked
        self.addCleanup(tasks[1].signal, signal.SIGCONT)
        with socket.socket() as elsewhere:  # a listening socket is handed in, as if this were another host
            elsewhere.bind(("127.0.0.1", 0))
            elsewhere.listen()
            os.set_inheritable(elsewhere.fileno(), True)
            second = self.start("run", self.run_toml, "--cluster_spec", spec, "--job_name", "worker", "--task_id", 1,
                                "--out", self.path("out"), *patient, "--listen_fd", elsewhere.fileno(),
                                pass_fds=(elsewhere.fileno(),))
            self.assertEqual(second.wait(), 2, second.err)
        self.assertRegex(second.err, "/job:ps/task:0.*refused this task: incarnation .*/job:worker/task:1 runs already")
        tasks[1].signal(signal.SIGCONT)
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), want)


class Places(cluster.ProcessTest):
    def test_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            task = self.start_task(f"ps|127.0.0.1:{port},worker|127.0.0.1:{cluster.free_ports(1)[0]}", "ps", 0)
            self.assertEqual(task.wait(), 2, task.err)
        self.assertRegex(task.err, rf"port {port} of 127\.0\.0\.1 is in use by process {os.getpid()} \(.*python")

    def test_address_of_another_host(self):
        task = self.start_task("ps|192.0.2.1:2500,worker|127.0.0.1:2501", "ps", 0)
        self.assertEqual(task.wait(), 2, task.err)
        self.assertIn("192.0.2.1:2500", task.err)

    def test_task_that_the_cluster_does_not_have(self):
        for job, index, says in (("worker", 2, "/job:worker/task:2"), ("wroker", 0, "did you mean 'worker'"),
                                 ("ps", 0, "/job:ps/task:0")):
            with self.subTest(job=job, index=index):
                task = self.start_task("worker|127.0.0.1:2500;127.0.0.1:2501", job, index)
                self.assertEqual(task.wait(), 2, task.err)
                self.assertIn(says, task.err)
                self.assertIn("worker 0-1", task.err, "it says which there are")
        self.assertFalse(os.path.exists(self.path("out")))

    def test_which_task(self):
        spec = "ps|127.0.0.1:2500,worker|127.0.0.1:2501"
        p = self.dtrain("run", self.run_toml, "--cluster_spec", spec, expect=2)
        self.assertRegex(p.err, "--job_name.*--task_id.*/job:ps/task:0, /job:worker/task:0")
        p = self.dtrain("run", self.run_toml, "--job_name", "worker", "--task_id", 0, expect=2)
        self.assertIn("--cluster", p.err)

    def test_a_grace_that_is_no_time(self):
        for grace in ("nan", "-1", "1e9", "soon"):
            p = self.dtrain("launch", self.run_toml, "--workers", 2, "--start_grace", grace, expect=2)
            self.assertIn(f"must be a number from 0 to 86400, got '{grace}'", p.err)

    def test_spec_that_is_none(self):
        for spec, says in (("worker", "worker|host:port"), ("worker|127.0.0.1", "port"), ("worker|127.0.0.1:99999", "65535"),
                           ("ps|127.0.0.1:2500", "worker"), ("wrker|127.0.0.1:2500", "did you mean 'worker'"),
                           ("worker|127.0.0.1:2500;127.0.0.1:2500", "127.0.0.1:2500")):
            with self.subTest(spec=spec):
                task = self.start_task(spec, "worker", 0)
                self.assertEqual(task.wait(), 2, task.err)
                self.assertIn(says, task.err)


class Strangers(cluster.ProcessTest):
    def test_garbage_while_training(self):
        want = self.train(*LONG, out="one")
        spec, at = self.cluster(workers=2, ps=2)
        tasks = [self.start_task(spec, job, i, *LONG) for job in ("ps", "worker") for i in (0, 1)]
        self.wait_for_step(tasks[0], "out", 2)
        draw = random.Random(1)
        words = [b"GET / HTTP/1.1\r\n\r\n", b"", draw.randbytes(100), draw.randbytes(100_000), b"\0" * 64, b"\xff" * 64]
        kept = []
        for n in range(60):
            for port in at.values():
                try:
                    stranger = socket.create_connection(("127.0.0.1", port), 10)
                    stranger.sendall(words[n % len(words)])
                except OSError:
                    continue  # it was cut off while it spoke
                if n % 10 == 0:
                    kept.append(stranger)  # says nothing more, and stays
                else:
                    stranger.close()
        self.assertLess(self.steps("out")[-1], 1200, "the run was over before the strangers were")
        self.assert_all_done(tasks)
        for stranger in kept:
            stranger.close()
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.steps("out"), list(range(1, 1201)))

    def test_garbage_while_waiting(self):
        want = self.train(out="one")
        spec, at = self.cluster(workers=1, ps=1)
        server = self.start_task(spec, "ps", 0)
        server.says("waiting for")
        with socket.create_connection(("127.0.0.1", at["ps", 0]), 10) as stranger:
            stranger.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 100)
            server.says("closed a connection from 127.0.0.1")
        self.assert_all_done([server, self.start_task(spec, "worker", 0)])
        self.assertEqual(self.model_hash("out"), want)


if __name__ == "__main__":
    unittest.main()
