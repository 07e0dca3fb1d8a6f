#!/usr/bin/env python3
"""Tasks that mpirun has started, or torchrun, whose variables a test can set by itself: they find their cluster and their
place from the environment."""
import os, shutil, signal, socket, unittest

import cluster

LONG = ["--set", "train.steps=100000", "--set", "train.log_every=1"]


class Engine(cluster.ProcessTest):
    def environment(self, extra=None):
        # Whatever engine started the tests themselves is not theirs.
        env = super().environment()
        for name in list(env):
            if name in ("RANK", "WORLD_SIZE") or name.startswith(("OMPI_", "PMIX_", "SLURM_", "TF_CONFIG", "MASTER_")):
                del env[name]
        return {**env, **(extra or {})}


class Mpirun(Engine):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("mpirun"):
            raise unittest.SkipTest("not installed: mpirun (package openmpi-bin)")

    def mpirun(self, tasks, *args, out, say=()):
        # Its own files go into the scratch folder; a path that is long is too long for its sockets.
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        process = cluster.Process(
            [*root, "--oversubscribe", "-n", str(tasks), *say, cluster.DTRAIN, "run", self.run_toml, "--out", self.path(out), *map(str, args)],
            self.dir, self.environment({"TMPDIR": self.dir}), program="mpirun")
        self.started.append(process)
        return process

    def test_every_task_finds_its_place(self):
        want = self.train("--workers", 3, out="launched")
        run = self.mpirun(3, out="out")
        self.assertEqual(run.wait(), 0, run.err)
        self.assertEqual(self.model_hash("out"), want)
        for rank in range(3):
            self.assertRegex(run.err, rf"/job:worker/task:{rank}: the cluster and this task are those of Open MPI in the environment: "
                                      rf"OMPI_COMM_WORLD_RANK={rank}, OMPI_COMM_WORLD_SIZE=3")

    def test_the_first_are_parameter_servers(self):
        want = self.train(out="one")
        run = self.mpirun(3, "--ps", 1, out="out")
        self.assertEqual(run.wait(), 0, run.err)
        self.assertEqual(self.model_hash("out"), want)
        for task in ("ps/task:0", "worker/task:0", "worker/task:1"):
            self.assertIn(f"/job:{task}: the cluster and this task", run.err)

    def test_one_task_is_a_solo_run(self):
        run = self.mpirun(1, out="out")
        self.assertEqual(run.wait(), 0, run.err)
        self.assertIn("one process trains alone, the only task of Open MPI", run.err)

    def test_a_lost_task_ends_all(self):
        run = self.mpirun(3, *LONG, out="out")
        self.wait_for_step(run, "out", 3)
        tasks = [pid for pid, line in cluster.processes_with(self.dir).items() if line.startswith(cluster.DTRAIN)]
        self.assertEqual(len(tasks), 3)
        os.kill(max(tasks), signal.SIGKILL)
        self.assertNotEqual(run.wait(60), 0)
        self.assert_no_process_left(5)

    def test_ctrl_c_leaves_nothing(self):
        run = self.mpirun(2, *LONG, out="out")
        self.wait_for_step(run, "out", 3)
        run.signal(signal.SIGINT)
        self.assertNotEqual(run.wait(60), 0)
        self.assert_no_process_left(5)

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            run = self.mpirun(2, out="out", say=["-x", f"DTRAIN_PORT_BASE={port}"])
            self.assertEqual(run.wait(60), 2, run.err)
        self.assertRegex(run.err, rf"port {port} of 127\.0\.0\.1 is in use by .+")
        self.assertFalse(self.steps("out"))

    def test_across_hosts_it_says_what_to_type(self):
        # As a task sees it that shares its host with none of the others.
        across = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": f"{os.getpid()}"}
        bad = self.dtrain("run", self.run_toml, "--out", self.path("bad"), env=across, expect=2)
        self.assertIn("mpirun -x MASTER_ADDR=HOST", bad.err)
        self.assertFalse(os.path.exists(self.path("bad")))
        want = self.train(out="one")
        tasks = [self.start("run", self.run_toml, "--out", self.path("out"),
                            env={**across, "OMPI_COMM_WORLD_RANK": rank, "MASTER_ADDR": "127.0.0.1"}) for rank in "10"]
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), want)


class Torchrun(Engine):
    def variables(self, rank, size, port, **more):
        return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **more}

    def start_all(self, size, port, *args, out="out", **more):
        return [self.start("run", self.run_toml, "--out", self.path(out), *args, env=self.variables(rank, size, port, **more))
                for rank in reversed(range(size))]

    def test_every_task_finds_its_place(self):
        want = self.train("--workers", 3, out="launched")
        tasks = self.start_all(3, cluster.free_ports(1)[0])
        self.assert_all_done(tasks)
        self.assertEqual(self.model_hash("out"), want)
        self.assertIn("/job:worker/task:2: the cluster and this task are those of torchrun in the environment: RANK=2, WORLD_SIZE=3",
                      tasks[0].err)

    def test_a_parameter_server(self):
        want = self.train(out="one")
        self.assert_all_done(self.start_all(3, cluster.free_ports(1)[0], "--ps", 1))
        self.assertEqual(self.model_hash("out"), want)

    def test_beside_an_agent_that_has_the_port(self):
        want = self.train(out="one")
        port = cluster.free_port_range(2)
        with socket.create_server(("127.0.0.1", port)):
            self.assert_all_done(self.start_all(2, port, TORCHELASTIC_USE_AGENT_STORE="True"))
        self.assertEqual(self.model_hash("out"), want)

    def test_asked_to_end_together_they_leave_a_checkpoint(self):
        want = self.train("--set", "train.steps=400", out="one")
        tasks = self.start_all(3, cluster.free_ports(1)[0], "--set", "train.steps=400", "--set", "train.log_every=1", "--ps", 1)
        self.wait_for_step(tasks[-1], "out", 3)
        for _ in range(2):  # an engine may say it twice
            for task in tasks:  # those that are not the coordinator first
                task.signal(signal.SIGTERM)
        for task in tasks:
            self.assertEqual(task.wait(30), 130, task.err)
        self.assertTrue(self.checkpoints("out"), tasks[-1].err)
        self.assertLess(self.steps("out")[-1], 400)
        self.train("--set", "train.steps=400", "--resume", out="out")
        self.assertEqual(self.model_hash("out"), want)

    def test_a_cluster_by_flags_and_a_number_by_the_engine(self):
        want = self.train(out="one")
        spec, _ = self.cluster(workers=2, ps=1)
        self.assert_all_done([self.start("run", self.run_toml, "--cluster_spec", spec, "--out", self.path("out"),
                                         env=self.variables(rank, 3, 1)) for rank in (2, 0, 1)])
        self.assertEqual(self.model_hash("out"), want)
        bad = self.dtrain("run", self.run_toml, "--cluster_spec", spec, "--out", self.path("bad"), env=self.variables(0, 4, 1), expect=2)
        self.assertIn("the cluster has 3 tasks", bad.err)
        self.assertIn("torchrun has started 4", bad.err)
        self.assertFalse(os.path.exists(self.path("bad")))

    def test_what_is_for_tasks_of_an_engine_alone(self):
        bad = self.dtrain("run", self.run_toml, "--ps", 1, "--out", self.path("bad"), expect=2)
        self.assertIn("dtrain launch --workers N --ps M", bad.err)
        self.assertFalse(os.path.exists(self.path("bad")))


if __name__ == "__main__":
    unittest.main()
