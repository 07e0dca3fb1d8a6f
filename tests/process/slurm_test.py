#!/usr/bin/env python3
"""Tasks that a real Slurm has started, a cluster of the tests' own on this host: they find their place, whichever way the
tasks are spread; when one is lost or the job is cancelled nothing is left."""
import filecmp, os, re, shlex, shutil, signal, socket, tempfile, unittest

import cluster, slurm_cluster

LONG = ["--set", "train.steps=100000", "--set", "train.log_every=1"]


class SlurmTest(cluster.ProcessTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := slurm_cluster.missing():
            raise unittest.SkipTest(why)
        folder = tempfile.mkdtemp(prefix="dtrain-slurm-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.slurm = slurm_cluster.SlurmCluster(os.path.join(folder, "cluster"))
        cls.addClassCleanup(cls.slurm.stop)

    def environment(self, extra=None):
        env = {k: v for k, v in super().environment().items() if not k.startswith(("SLURM", "OMPI_", "PMIX_"))}
        return {**env, "SLURM_CONF": self.slurm.conf, **(extra or {})}

    def slurm_command(self, name, *args, env=None):
        process = cluster.Process([str(a) for a in args], self.dir, self.environment(env), program=slurm_cluster.program(name))
        self.started.append(process)
        return process

    def srun(self, *srun_args, run=(), out="out", env=None):
        return self.slurm_command("srun", *srun_args, cluster.DTRAIN, "run", self.run_toml, "--out", self.path(out), *run, env=env)

    def tasks(self):
        return [pid for pid, line in cluster.processes_with(self.dir).items() if line.startswith(cluster.DTRAIN)]


class Places(SlurmTest):
    def assert_done(self, run, want, out="out"):
        self.assertEqual(run.wait(), 0, run.err)
        self.assertEqual(self.model_hash(out), want)

    def test_two_nodes(self):
        want = self.train("--workers", 2, out="launched")
        run = self.srun("-N", 2, "-n", 2)
        self.assert_done(run, want)
        for rank in range(2):
            self.assertRegex(run.err, rf"/job:worker/task:{rank}: the cluster and this task are those of Slurm in the environment: "
                                      rf"SLURM_JOB_ID=\d+, SLURM_STEP_ID=0, SLURM_PROCID={rank}, SLURM_NTASKS=2, "
                                      r"SLURM_STEP_NODELIST=127\.0\.0\.\[2-3\]")

    def test_every_distribution(self):
        want = self.train(out="one")
        for i, distribution in enumerate(["block", "cyclic", "plane=2"]):
            with self.subTest(distribution):
                self.assert_done(self.srun("-N", 2, "-n", 5, "-m", distribution, out=f"out{i}"), want, f"out{i}")

    def test_one_that_does_not_tell(self):
        hosts = cluster.write(self.path("hosts"), "127.0.0.3\n127.0.0.2\n127.0.0.3\n")
        args = ["-N", 2, "-n", 3, "-m", "arbitrary"]
        run = self.srun(*args, env={"SLURM_HOSTFILE": hosts})
        self.assertEqual(run.wait(), 2, run.err)
        self.assertIn("with the distribution 'arbitrary' they do not tell which task is on which node", run.err)
        # But the user may.
        ports = cluster.free_ports(3)
        spec = "worker|" + ";".join(f"{host}:{port}" for host, port in zip(["127.0.0.3", "127.0.0.2", "127.0.0.3"], ports))
        want = self.train(out="one")
        self.assert_done(self.srun(*args, run=["--cluster_spec", spec], env={"SLURM_HOSTFILE": hosts}), want)

    def test_ports_that_follow_from_the_job(self):
        want = self.train(out="one")
        run = self.srun("-N", 2, "-n", 3, "--resv-ports=0", run=["--ps", 1])
        self.assert_done(run, want)
        for task in ("ps/task:0", "worker/task:0", "worker/task:1"):
            self.assertIn(f"/job:{task}: the cluster and this task", run.err)

    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.2", 0)) as taken:
            port = taken.getsockname()[1]
            run = self.srun("-N", 2, "-n", 2, "--kill-on-bad-exit=1", run=["--port_base", port])
            self.assertNotEqual(run.wait(60), 0)
        self.assertIn("task 0: Exited with exit code 2", run.err)
        self.assertRegex(run.err, rf"port {port} of 127\.0\.0\.2 is in use by .+")
        self.assertFalse(self.steps("out"))

    def test_a_cluster_file_and_numbers_of_srun(self):
        want = self.train(out="one")
        a, b = cluster.free_ports(2)
        spec = cluster.write(self.path("c.toml"), f'[jobs.ps]\ntasks = ["127.0.0.2:{a}"]\n[jobs.worker]\ntasks = ["127.0.0.3:{b}"]\n')
        self.assert_done(self.srun("-N", 2, "-n", 2, run=["--cluster", spec]), want)
        wrong = self.srun("-N", 2, "-n", 3, run=["--cluster", spec], out="wrong")
        self.assertEqual(wrong.wait(60), 2, wrong.err)
        self.assertRegex(wrong.err, r"the cluster has 2 tasks .* but Slurm has started 3")
        swapped = cluster.write(self.path("s.toml"), f'[jobs.worker]\ntasks = ["127.0.0.3:{b}", "127.0.0.2:{a}"]\n')
        wrong = self.srun("-N", 2, "-n", 2, run=["--cluster", swapped], out="wrong")
        self.assertEqual(wrong.wait(60), 2, wrong.err)
        self.assertRegex(wrong.err, r"/job:worker/task:0 of the cluster is at 127\.0\.0\.3, but Slurm has started it on 127\.0\.0\.2")
        self.assertFalse(os.path.exists(self.path("wrong")))

    def test_without_srun_it_is_a_solo_run(self):
        alone = self.slurm_command("salloc", "-n", 2, cluster.DTRAIN, "run", self.run_toml, "--out", self.path("out"))
        self.assertEqual(alone.wait(), 0, alone.err)
        self.assertRegex(alone.err, r"Slurm job \d+ without srun: this process trains alone")
        self.assert_done(self.srun("-n", 1, out="step"), self.model_hash("out"), "step")


class Ends(SlurmTest):
    def begin(self, *args, **kwargs):
        run = self.srun(*args, run=LONG, **kwargs)
        self.wait_for_step(run, "out", 3)
        return run

    def job(self):
        return self.slurm.ask("squeue", "-h", "-o", "%A").split()

    def test_a_lost_task_ends_all(self):
        run = self.begin("-N", 2, "-n", 3)
        tasks = self.tasks()
        self.assertEqual(len(tasks), 3)
        os.kill(max(tasks), signal.SIGKILL)
        self.assertNotEqual(run.wait(60), 0)
        self.assertRegex(run.err, r"/job:worker/task:\d .*lost")
        self.assert_no_process_left(10)

    def test_scancel_leaves_a_checkpoint_and_no_process(self):
        run = self.begin("-N", 2, "-n", 3)
        [job] = self.job()
        self.slurm.ask("scancel", job)
        self.assertNotEqual(run.wait(60), 0)
        self.assert_no_process_left(10)
        self.assertTrue(self.checkpoints("out"), run.err)

    def test_ctrl_c_leaves_nothing(self):
        run = self.begin("-N", 2, "-n", 2, "--quit-on-interrupt")
        run.signal(signal.SIGINT)
        self.assertNotEqual(run.wait(60), 0)
        self.assert_no_process_left(10)


class Launch(SlurmTest):
    def launch(self, *args, out="out", expect=0):
        return self.dtrain("launch", self.run_toml, "--slurm", "--out", self.path(out), *args, expect=expect)

    def submitted(self, launched):
        return re.search(r"^\[launch\] job (\d+) of Slurm", launched.err, re.M).group(1)

    def ended(self, job):
        """The state in which the job has ended, and its comment."""
        def look():
            text = self.slurm.ask("scontrol", "show", "job", job)
            state = re.search(r"JobState=(\w+)", text)
            return text if state and state.group(1) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING") else ""
        text = cluster.until(look, lambda: f"job {job} has ended\n" + self.slurm.ask("scontrol", "show", "job", job))
        return re.search(r"JobState=(\w+)", text).group(1), "".join(re.findall(r"^   Comment=(.*?) *$", text, re.M))

    def log(self, out, job):
        with open(self.path(out, f"slurm-{job}.log"), encoding="utf-8") as f:
            return f.read()

    def test_submits_what_runs(self):
        want = self.train("--workers", 2, "--ps", 1, out="launched")
        out = "it's 100%j of \"me\""  # nothing in it is Slurm's, or a shell's
        comment = "a 'b' \"c\" \\ #d $e"
        launched = self.launch("--workers", 2, "--ps", 1, "--nodes", 2, "--sbatch_option", f"--comment={comment}",
                               "--sbatch-option=-t 10", "--set", "train.log_every=1", out=out)
        job = self.submitted(launched)
        self.assertIn("2 workers, 1 ps on 2 nodes", launched.err)
        self.assertIn(f"tail -F {self.path(out)}/slurm-{job}.log", launched.err)
        self.assertEqual(self.ended(job), ("COMPLETED", comment), self.log(out, job))
        self.assertEqual(self.model_hash(out), want)
        for task in ("ps/task:0", "worker/task:0", "worker/task:1"):
            self.assertIn(f"/job:{task}: the cluster and this task are those of Slurm", self.log(out, job))

    def test_the_run_has_a_secret(self):
        want = self.train("--workers", 2, out="launched")
        for out, flags in (("drawn", []), ("given", ["--secret_file", self.path("my secret")])):
            with self.subTest(out):
                if flags:
                    with open(flags[1], "w", opener=lambda path, how: os.open(path, how, 0o600)) as f:
                        f.write("0123456789 of my own\n")
                file = flags[1] if flags else self.path("drawn", "secret")
                # A descriptor that the launcher's environment names is not the tasks'.
                launched = self.dtrain("launch", self.run_toml, "--slurm", "--workers", 2, "--allow_guests", "--out", self.path(out),
                                       "--set", "train.steps=100000", *flags, env={"DTRAIN_SECRET_FD": "0"})
                job = self.submitted(launched)
                self.assertEqual(os.stat(file).st_mode & 0o777, 0o600)
                with open(file, encoding="utf-8") as f:
                    secret = f.read().strip()
                if not flags:
                    self.assertRegex(secret, r"^[0-9a-f]{64}$")
                with open(self.path(out, "slurm.sh"), encoding="utf-8") as f:
                    script = f.read()
                self.assertIn(f"--secret_file {shlex.quote(file)}", script)
                self.assertNotIn(secret, script + launched.err)
                cluster.until(lambda: self.steps(out)[2:], lambda: "some steps\n" + self.log(out, job))
                for pid in self.tasks():
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        self.assertIn(f"--secret_file\0{file}\0", f.read().decode())
                self.slurm.ask("scancel", job)
                self.ended(job)
        job = self.submitted(self.launch("--workers", 2, out="same"))
        self.assertEqual(self.ended(job)[0], "COMPLETED", self.log("same", job))
        self.assertEqual(self.model_hash("same"), want)
        self.assertFalse(filecmp.cmp(self.path("drawn", "secret"), self.path("same", "secret"), shallow=False))
        os.chmod(self.path("my secret"), 0o644)
        refused = self.launch("--workers", 2, "--secret_file", self.path("my secret"), out="other", expect=2)
        self.assertIn("chmod 600", refused.err)
        self.assertFalse(os.path.exists(self.path("other")))

    def test_what_the_environment_says_of_others_does_not_matter(self):
        env = {"TF_CONFIG": "{", "RANK": "7", "WORLD_SIZE": "3", "DTRAIN_JOB_NAME": "ps", "DTRAIN_TASK_ID": "3"}
        job = self.submitted(self.dtrain("launch", self.run_toml, "--slurm", "--workers", 2, "--out", self.path("out"), env=env))
        self.assertEqual(self.ended(job)[0], "COMPLETED", self.log("out", job))

    def test_scancel_and_on_again(self):
        want = self.train("--set", "train.steps=1500", out="one")
        args = ["--workers", 2, "--ps", 1, "--set", "train.steps=1500", "--set", "train.log_every=1"]
        job = self.submitted(self.launch(*args))
        cluster.until(lambda: self.steps("out")[2:], "some steps")
        self.slurm.ask("scancel", job)
        self.assertEqual(self.ended(job)[0], "CANCELLED")
        self.assert_no_process_left(10)
        self.assertTrue(self.checkpoints("out"), self.log("out", job))
        self.assertLess(self.steps("out")[-1], 1500)
        job = self.submitted(self.launch("--resume", *args))
        self.assertEqual(self.ended(job)[0], "COMPLETED", self.log("out", job))
        self.assertEqual(self.model_hash("out"), want)

    def test_the_script_may_begin_again(self):
        # As Slurm does it with a job that is requeued, but that one waits for two minutes.
        want = self.train("--set", "train.steps=1500", out="one")
        first = self.submitted(self.launch("--workers", 2, "--auto_resume", "--set", "train.steps=1500", "--set", "train.log_every=1"))
        cluster.until(lambda: self.steps("out")[2:], "some steps")
        self.slurm.ask("scancel", first)
        self.ended(first)
        self.assertIn("Requeue=1", self.slurm.ask("scontrol", "show", "job", first))
        self.assertTrue(self.checkpoints("out"), self.log("out", first))
        second = self.slurm.ask("sbatch", "--parsable", self.path("out", "slurm.sh")).strip()
        self.assertEqual(self.ended(second)[0], "COMPLETED", self.log("out", second))
        self.assertEqual(self.steps("out"), list(range(1, 1501)))
        self.assertEqual(self.model_hash("out"), want)

    def test_a_lost_worker_beside_parameter_servers(self):
        want = self.train("--set", "train.steps=1500", out="one")
        job = self.submitted(self.launch("--workers", 2, "--ps", 1, "--set", "train.steps=1500", "--set", "train.log_every=1"))
        cluster.until(lambda: self.steps("out")[2:], "some steps")
        [worker] = [pid for pid in self.tasks() if self.rank_of(pid) == "2"]
        os.kill(worker, signal.SIGKILL)
        self.ended(job)
        self.assertRegex(self.log("out", job), r"/job:worker/task:1 .*is lost")
        self.assertEqual(self.model_hash("out"), want, "the run goes on without it")

    def rank_of(self, pid):
        with open(f"/proc/{pid}/environ", "rb") as f:
            return re.search(rb"(?:^|\0)SLURM_PROCID=(\d+)", f.read()).group(1).decode()

    def test_print_only_prints(self):
        printed = self.launch("--workers", 2, "--print")
        self.assertTrue(printed.out.startswith("#!/bin/sh\n"))
        self.assertIn("#SBATCH --ntasks=2\n", printed.out)
        self.assertIn(f"--secret_file {self.path('out')}/secret", printed.out)
        self.assertIn(f"openssl rand -hex 32 > {self.path('out')}/secret", printed.err)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_what_cannot_be_is_said_before_anything_is_submitted(self):
        for args, said in ((["--workers", 2, "--nodes", 3], "there are only 2 tasks"),
                           ([], "at least one worker"),
                           (["--workers", 2, "--sbatch_option=--ntasks=4"], "say it by --workers"),
                           (["--workers", 2, "--servers", "ps"], "the cluster has none"),
                           (["--workers", 2, "--set", "train.stps=1"], "did you mean 'steps'"),
                           (["--workers", 2, "--cluster", "c.toml"], "--slurm chooses the hosts")):
            self.assertIn(said, self.launch(*args, expect=2).err)
        bad = self.dtrain("launch", self.run_toml, "--workers", 2, "--print", "--out", self.path("out"), expect=2)
        self.assertIn("are for --slurm", bad.err)
        self.assertFalse(os.path.exists(self.path("out")))
        refused = self.launch("--workers", 2, "--sbatch_option=--partition=nowhere", expect=2)
        self.assertRegex(refused.err, r"sbatch did not take .*/slurm\.sh:\n.*invalid partition specified: nowhere")


if __name__ == "__main__":
    unittest.main()
