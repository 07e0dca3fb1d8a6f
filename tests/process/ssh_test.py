#!/usr/bin/env python3
"""dtrain launch over real ssh servers: what it promises of hosts that are reached by ssh, one by one. Threads of other
projects' users who met what is tested are named where there are any."""
import os, re, shutil, signal, subprocess, time, unittest

import cluster, sshd

LONG = ["--set", "train.steps=100000", "--set", "train.log_every=1"]
WITHIN = 5  # seconds after which nothing may be left anywhere


class SshTest(cluster.ProcessTest):
    HOSTS = 2

    def setUp(self):
        why = sshd.possible()
        if why:
            self.skipTest(why)
        super().setUp()
        self.hosts = sshd.Hosts(self.path("hosts"), self.HOSTS)
        self.enterContext_(self.hosts)
        self.hostfile = cluster.write(self.path("hostfile"), "".join(f"{n} slots=2\n" for n in self.hosts.names))

    def enterContext_(self, manager):  # unittest has it from Python 3.11 on
        manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)

    def launch(self, *args, out="out", hostfile=None, run=None, **kwargs):
        return self.start("launch", run or self.run_toml, "--hostfile", hostfile or self.hostfile, "--ssh_config",
                          self.hosts.config, "--out", self.path(out), *args, **kwargs)

    def launched(self, *args, expect=0, **kwargs):
        p = self.launch(*args, **kwargs)
        code = p.wait()
        self.assertEqual(code, expect, f"{p}\n{p.out}{p.err}")
        return p

    def tasks(self):
        """The processes of tasks, wherever: pid → command line."""
        return {pid: line for pid, line in cluster.processes_with(self.dir).items()
                if " --launched" in line and " agent" not in line}

    def assert_no_process_left(self, within):
        def left():
            return {pid: line for pid, line in cluster.processes_with(self.dir).items() if "sshd_config_" not in line}
        cluster.until(lambda: not left(), lambda: f"all processes gone, but {left()}", within)

    def agents(self):
        """The processes of agents of this test's servers."""
        found = []
        for server in self.hosts.servers:
            for session in sshd.sessions(server.pid):
                found += [pid for pid in children_of(session) if "agent" in command_of(pid)]
        return found


def children_of(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == parent:
                    found.append(int(pid))
        except OSError:
            continue
    return found


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Runs(SshTest):
    def test_the_same_bits_as_in_one_process(self):
        want = self.train(out="one")
        for n, args in enumerate((["--workers", 2, "--ps", 2], ["--workers", 4], ["--workers", 2, "--ps", 1], [])):
            self.launched(*args, out=f"out{n}")
            self.assertEqual(self.model_hash(f"out{n}"), want)
        self.assert_no_process_left(WITHIN)

    def test_a_cluster_file(self):
        want = self.train(out="one")
        # Addresses of this machine: without ssh.
        ports = cluster.free_ports(3)
        names = dict(zip(self.hosts.names, (self.hosts.address(0), self.hosts.address(1))))
        spec = cluster.write(self.path("c.toml"), f'[jobs.server]\nrole = "ps"\ntasks = ["{names["node1"]}:{ports[0]}"]\n'
                                                  f'[jobs.worker]\ntasks = ["{names["node1"]}:{ports[1]}", '
                                                  f'"{names["node2"]}:{ports[2]}"]\n')
        self.dtrain("launch", self.run_toml, "--cluster", spec, "--out", self.path("out"))
        self.assertEqual(self.model_hash("out"), want)

    def test_eight_tasks_are_ready_within_five_seconds(self):
        """Their start is printed, not asserted to the second: a busy machine takes longer."""
        hostfile = cluster.write(self.path("h"), "node[1-2] slots=4\n")
        begin = time.monotonic()
        p = self.launch("--workers", 6, "--ps", 2, *LONG, hostfile=hostfile)
        self.wait_for_step(p, "out", 1)
        print(f"  8 tasks on 2 hosts took their first step after {time.monotonic() - begin:.1f} s", flush=True)
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)

    def test_a_log_file_a_task(self):
        p = self.launched("--workers", 2, "--ps", 1)
        logs = sorted(os.listdir(self.path("out", "logs")))
        self.assertEqual(logs, ["ps-0.log", "worker-0.log", "worker-1.log"])
        with open(self.path("out", "logs", "ps-0.log")) as f:
            self.assertIn("done: 40 steps", f.read())
        self.assertIn("[ps/0] done: 40 steps", p.err)

    def test_only_what_is_asked_for_is_shown(self):
        p = self.launched("--workers", 2, "--ps", 1, "--only", "worker/1")
        self.assertNotIn("[ps/0]", p.err)
        with open(self.path("out", "logs", "ps-0.log")) as f:
            self.assertIn("done: 40 steps", f.read())
        p = self.launched("--workers", 2, "--ps", 1, "--only", "wroker", out="out2", expect=2)
        self.assertIn("--only wroker: no task is meant; there are ps/0, worker/0, worker/1", p.err)

    def test_the_environment_that_is_asked_for(self):
        self.launched("--workers", 1, "--env", "NO_SUCH_VARIABLE", expect=2)
        p = self.launch("--workers", 1, "--env", "A_TEST=it is $here 'and' \"there\"", *LONG)
        self.wait_for_step(p, "out", 1)
        [pid] = self.tasks()
        with open(f"/proc/{pid}/environ", "rb") as f:
            self.assertIn(b"A_TEST=it is $here 'and' \"there\"", f.read().split(b"\0"))
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130)


class Secrets(SshTest):
    """Tasks prove to each other that they were started together; what they prove is seen by nobody."""

    def test_the_secret_is_nowhere(self):
        word = "the word that nobody is to see"
        secret = cluster.write(self.path("secret"), word + "\n")
        os.chmod(secret, 0o600)
        p = self.launch("--workers", 3, "--ps", 1, "--secret_file", secret, *LONG)
        self.wait_for_step(p, "out", 2)
        looked = 0
        for pid in [*self.tasks(), *cluster.processes_with(self.hosts.config), *self.agents(), p.pid]:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as f:
                    content = f.read()
                self.assertNotIn(word.encode(), content)
                self.assertNotIn(word.encode().hex().encode(), content)
                looked += 1
        self.assertGreater(looked, 10)
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)
        for folder, _, names in os.walk(self.path("out")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    self.assertNotIn(word.encode(), f.read())
        self.assertNotIn(word, p.err)

    def test_nobody_joins_without_it(self):
        """Also where the launcher has drawn it: a task with the right run file from elsewhere is no task of the run."""
        p = self.launch("--workers", 1, "--ps", 1, "--max_workers", 3, *LONG)
        self.wait_for_step(p, "out", 2)
        said = p.says(r"other workers join with: dtrain run (.*) --job_name worker --task_id N").group(1)
        import shlex
        words = shlex.split(said)
        stranger = self.start("run", *(w for i, w in enumerate(words) if w != "--secret_file" and words[i - 1] != "--secret_file"),
                              "--job_name", "worker", "--task_id", 1, "--out", self.path("out"), *LONG)
        self.assertEqual(stranger.wait(), 6, stranger.err)
        self.assertEqual(os.stat(words[words.index("--secret_file") + 1]).st_mode & 0o777, 0o600)
        friend = self.start("run", *words, "--job_name", "worker", "--task_id", 1, "--out", self.path("out"), *LONG)
        p.says(r"/job:worker/task:1 computes from step \d+ on, one of 2 workers")
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)
        friend.wait()


class Words(SshTest):
    """apache/mxnet 6715, dmlc-core 131: spaces and quotes in paths and arguments broke the ssh launcher."""
    NAME = "a b 'c' \"d\" $HOME `e` \\f; g & (h) *é→日本"

    def test_any_path_and_argument_arrives_as_given(self):
        want = self.train(out="one")
        folder = self.path(self.NAME)
        os.mkdir(folder)
        for name in ("images.idx", "labels.idx"):
            shutil.copy(self.path(name), folder)
        run = cluster.write(os.path.join(folder, self.NAME[:20] + ".toml"), cluster.RUN)
        p = self.launch("--workers", 2, "--ps", 1, "--set", f"name={self.NAME}", run=run,
                        out=os.path.join(self.NAME, "out " + self.NAME[-6:]))
        self.assertEqual(p.wait(), 0, p.err)
        self.assertEqual(self.model_hash(self.NAME, "out " + self.NAME[-6:]), want)

    def test_another_shell(self):
        want = self.train(out="one")
        for name in ("zsh", "csh", "fish"):
            if not shutil.which(name):
                continue
            quoted = shutil.which(name)
            with self.subTest(shell=name):
                # What sshd hands to the user's shell goes to this one instead.
                self.hosts.stop(0)
                self.hosts.start(0, f"SetEnv HOME={self.hosts.homes[0]}\nForceCommand exec {quoted} -c \"$SSH_ORIGINAL_COMMAND\"")
                self.launched("--workers", 2, "--ps", 1, out=f"out-{name}")
                self.assertEqual(self.model_hash(f"out-{name}"), want)

    def test_a_login_that_prints(self):
        """What a shell prints before dtrain does is no harm."""
        self.hosts.stop(0)
        self.hosts.start(0, f"SetEnv HOME={self.hosts.homes[0]}\n" "ForceCommand echo Welcome to node1; printf no-end; eval \"$SSH_ORIGINAL_COMMAND\"")
        self.launched("--workers", 2, "--ps", 1)


class Checks(SshTest):
    """Everything that is in the way is said at once, and nothing is started."""

    def refused(self, *args, expect, says, out="out", **kwargs):
        p = self.launched(*args, expect=expect, out=out, **kwargs)
        for word in says:
            self.assertRegex(p.err, word)
        self.assertFalse(self.steps(out))
        self.assert_no_process_left(WITHIN)
        return p

    def test_everything_at_once(self):
        self.hosts.stop(1)
        shutil.rmtree(self.path("hosts", "node1"))
        os.remove(self.path("labels.idx"))
        self.refused("--workers", 4, expect=3, says=[
            r"node1: .*run\.toml:7:10: error: '.*labels\.idx' cannot be read there: No such file",
            r"node2: not reached: .*Connection refused.*sshd", "nothing was started"])
        self.assertFalse(os.path.exists(self.path("out", "metrics.jsonl")))

    def test_a_password_would_be_asked_for(self):
        cluster.write(self.path("hosts", "authorized_keys"), "")
        self.refused("--workers", 2, expect=4, says=["node1: not reached: .*Permission denied", "ssh-copy-id"])

    def test_an_unknown_host(self):
        hostfile = cluster.write(self.path("h"), "node1\nno-such-host.invalid\n")
        self.refused("--workers", 2, expect=4, hostfile=hostfile, says=["no-such-host.invalid: not reached: .*resolve"])

    def test_a_key_that_changed(self):
        self.launched("--workers", 1, out="first")
        subprocess.run(["rm", self.path("hosts", "host_key"), self.path("hosts", "host_key.pub")], check=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path("hosts", "host_key")], check=True)
        self.hosts.stop(0)
        self.hosts.start(0)
        self.refused("--workers", 1, expect=4, says=["not reached.*ssh-keygen -R"])

    def test_another_version_on_one_host(self):
        other = cluster.write(self.path("dtrain"), '#!/bin/sh\necho \'{"type": "greeting", "version": "0.0.1 (protocol 1)", '
                                                   '"machine": "m", "rsync": false}\'\ncat >/dev/null\n')
        os.chmod(other, 0o755)
        self.refused("--workers", 1, "--remote_dtrain", other, expect=2,
                     says=[r"node1: dtrain there is 0\.0\.1 \(protocol 1\), here it is ", "--sync"])

    def test_no_dtrain(self):
        self.refused("--workers", 1, "--remote_dtrain", self.path("nowhere"), expect=2,
                     says=["node1: there is no dtrain at .*nowhere.*--sync"])

    def test_a_dtrain_that_does_not_start(self):
        broken = cluster.write(self.path("dtrain"), "#!/bin/sh\necho libdnnl.so.2: cannot open >&2\nexit 12\n")
        os.chmod(broken, 0o755)
        self.refused("--workers", 1, "--remote_dtrain", broken, expect=2,
                     says=[r"node1: dtrain there does not start \(exit code 12\): libdnnl.so.2: cannot open"])

    def test_a_folder_that_is_not_there(self):
        self.refused("--workers", 1, "--remote_dir", self.path("nowhere"), expect=2,
                     says=["node1: the folder .*nowhere cannot be entered there: No such file.*--sync.*--remote_dir"])

    def test_a_folder_that_cannot_be_written(self):
        cluster.write(self.path("file"), "")
        p = self.launched("--workers", 1, expect=2, out=os.path.join("file", "out"))
        self.assertRegex(p.err, "node1: .*file/out.*Not a directory")

    def test_a_run_that_is_there_already(self):
        self.launched("--workers", 1)
        p = self.launched("--workers", 1, expect=2)
        self.assertRegex(p.err, "node1: .* holds a run already .*--resume")

    def test_a_port_in_use(self):
        """pytorch 126510, LightGBM 4960: who has the port is named."""
        import socket
        with socket.socket() as other:
            other.bind((self.hosts.address(0), 0))
            other.listen()
            port = other.getsockname()[1]
            spec = cluster.write(self.path("c.toml"), f'[jobs.worker]\ntasks = ["{self.hosts.address(0)}:{port}"]\n')
            p = self.dtrain("launch", self.run_toml, "--cluster", spec, "--out", self.path("out"), expect=2)
            self.assertRegex(p.err, rf"worker/0: port {port} of 127\.0\.0\.2 is in use by process {os.getpid()}")

    def test_too_little_memory(self):
        self.refused("--workers", 1, "--set", "network.layers=[{type='flatten'},{type='linear',units=1000000},{type='linear',units=1000000},"
                     "{type='linear',units=10},{type='softmax_cross_entropy'}]", expect=2,
                     says=["node1: its 1 task takes .* of memory; there is "])

    def test_another_run_file_on_a_host(self):
        """A copy that is older than the launcher's is not trained without a word."""
        there = self.path("there")
        os.mkdir(there)
        for name in ("images.idx", "labels.idx", "run.toml"):
            shutil.copy(self.path(name), there)
        cluster.write(self.path("run.toml"), cluster.RUN.replace("lr = 0.002", "lr = 0.003"))
        args = ["--workers", 2, "--remote_dir", there]
        p = self.launched(*args, run="run.toml", expect=2)
        self.assertRegex(p.err, "node1: run.toml or what it includes is another one there than here: --sync brings this one")
        p = self.launched(*args, "--sync", run="run.toml")
        self.assertEqual(self.model_hash("out"), self.train(out="one"))

    def test_flags_of_others(self):
        """A flag that does nothing is refused rather than passed over."""
        for flags, says in ((["--image", "i"], "of --kubernetes"), (["--sync"], "reached by ssh"), (["--nodes", 2], "--slurm"),
                            (["--remote_dir", "/"], "reached by ssh")):
            p = self.dtrain("launch", self.run_toml, "--workers", 1, "--out", self.path("out"), *flags, expect=2)
            self.assertIn(says, p.err)
        p = self.dtrain("run", self.run_toml, "--workers", 2, expect=2)
        self.assertIn("dtrain launch starts workers", p.err)

    def test_mistakes_in_the_run_file_are_said_once(self):
        p = self.refused("--workers", 4, "--set", "train.btach=3", expect=2, says=["btach.*did you mean 'batch'"])
        self.assertEqual(p.err.count("unknown key"), 1)

    def test_without_some_hosts(self):
        self.hosts.stop(1)
        hostfile = cluster.write(self.path("h"), "node1 slots=3\nnode2 slots=2\n")
        p = self.refused("--workers", 4, "--ps", 1, "--min_workers", 3, expect=4, hostfile=hostfile, says=["node2: not reached"])
        # Servers lie beside workers, and the first of these is on the host that is missing.
        want = self.train(out="one")
        hostfile = cluster.write(self.path("h"), "node2 slots=2\nnode1 slots=2\n")
        p = self.launched("--workers", 4, "--min_workers", 2, hostfile=hostfile, out="without-first")
        self.assertEqual(self.model_hash("without-first"), want)
        p = self.launched("--workers", 4, "--min_workers", 2, hostfile=hostfile, out="without-first", expect=2)
        self.assertRegex(p.err, "node1: .* holds a run already")
        hostfile = cluster.write(self.path("h"), "node1 slots=3\nnode2 slots=2 role=worker\n")
        p = self.launched("--workers", 4, "--ps", 1, "--min_workers", 2, hostfile=hostfile)
        self.assertIn(f"what the run has written is on node1, in {self.path('out')}", p.err)
        self.assertRegex(p.err, r"these hosts are left out:\n\[launch\]   node2: not reached")
        self.assertEqual(self.model_hash("out"), want)


class Hostfiles(SshTest):
    """apache/mxnet 17470, DeepSpeed 1481, LightGBM's machine lists: an error before anything starts."""

    def refused(self, text, says, *args):
        hostfile = self.path("hosts.txt")
        if text is not None:
            cluster.write(hostfile, text)
        p = self.launched("--workers", 3, *args, hostfile=hostfile, expect=2)
        self.assertRegex(p.err, says)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_what_is_no_name(self):
        self.refused("no\0de1\n", "hosts.txt:1: error: .*controls terminals")
        self.refused("@node1\n", "hosts.txt:1: error: '@node1' names no user")

    def test_a_pipe(self):
        p = self.launched("--workers", 2, hostfile="/dev/stdin", expect=2)  # /dev/null
        self.assertIn("/dev/stdin names no host", p.err)

    def test_missing(self):
        self.refused(None, "the hostfile cannot be read: .*hosts.txt.*No such file")

    def test_empty(self):
        self.refused("# nobody\n\n", "hosts.txt names no host")

    def test_duplicates(self):
        self.refused("node1 slots=3\nnode[1-2]\n", "hosts.txt:2: error: node1 is in line 1 already")

    def test_unknown_keys(self):
        self.refused("node1 slot=3\n", r"hosts.txt:1: error: unknown 'slot=3' \(did you mean 'slots'\?\)")
        self.refused("node1 slots=none\n", "hosts.txt:1: error: 'slots=none': slots is a number")
        self.refused("node1:4x\n", "hosts.txt:1: error: .*port of ssh")
        self.refused("-oProxyCommand=reboot slots=3\n", "hosts.txt:1: error: .*no name of a host")

    def test_fewer_slots_than_tasks(self):
        self.refused("node1\nnode2\n", "too few slots: 3 worker tasks are wanted, and there is room for 2")
        self.refused("node1 role=ps\nnode2 slots=8\n", "too few slots: 10 ps tasks are wanted, and there is room for 9", "--ps", 10)

    def test_beside_a_cluster_file(self):
        spec = cluster.write(self.path("c.toml"), '[jobs.worker]\ntasks = ["127.0.0.1:2500"]\n')
        self.refused("node1\n", "--hostfile", "--cluster", spec)


class Sync(SshTest):
    def test_files_and_program(self):
        for by, path in (("rsync", os.environ["PATH"]), ("tar", None)):
            if by == "rsync" and not shutil.which("rsync"):
                continue
            with self.subTest(by=by):
                self.sync(by, path)

    def sync(self, by, path):
        """To a folder of each host's own that is not there yet, by a program that only the launcher has."""
        want = self.train(out="one-" + by)
        here, there = self.path("here " + by), self.path("there 'of the' host " + by)
        os.makedirs(os.path.join(here, "sub"))
        for name in ("images.idx", "labels.idx"):
            shutil.copy(self.path(name), os.path.join(here, "sub"))
        head, network = cluster.RUN.split("[network]")
        cluster.write(os.path.join(here, "sub", "net.toml"), "[network]" + network)
        cluster.write(os.path.join(here, "run it.toml"), 'include = ["sub/net.toml"]\n' +
                      head.replace('"images.idx"', '"sub/images.idx"').replace('"labels.idx"', '"sub/labels.idx"'))
        env = self.environment()
        if by == "tar":  # a PATH without rsync
            tools = self.path("tools")
            os.makedirs(tools, exist_ok=True)
            for tool in ("ssh", "tar", "gzip", "sh"):
                if not os.path.exists(os.path.join(tools, tool)):
                    os.symlink(shutil.which(tool), os.path.join(tools, tool))
            env["PATH"] = tools
        program = self.path("only-here")
        shutil.copy(cluster.DTRAIN, program)
        args = ["launch", "run it.toml", "--hostfile", self.hostfile, "--ssh_config", self.hosts.config, "--workers", "2",
                "--ps", "1", "--remote_dir", there, "--out", "out"]

        def run(*more):
            return subprocess.run([program, *args, *more], cwd=here, env=env, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=cluster.PATIENCE)
        without = run()
        self.assertEqual(without.returncode, 2, without.stderr)
        no_data = run("--sync")
        self.assertEqual(no_data.returncode, 3, no_data.stderr)
        self.assertRegex(no_data.stderr, "node1: .*images.idx' cannot be read there")
        done = run("--sync_data")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.model_hash(there, "out"), want)
        shutil.rmtree(there)

    def test_the_program_itself(self):
        """Where a host has no dtrain, or another one, this one is brought, and found again the next time."""
        program = self.path("only-here", "dtrain")
        os.mkdir(self.path("only-here"))
        shutil.copy(cluster.DTRAIN, program)
        os.rename(program, program + "-hidden")
        launcher = program + "-hidden"
        args = ["launch", self.run_toml, "--hostfile", self.hostfile, "--ssh_config", self.hosts.config, "--workers", "2",
                "--ps", "1"]
        # The same path must not be there for the hosts: they see the file system through another name.
        self.hosts.stop(0), self.hosts.stop(1)
        for i in (0, 1):
            self.hosts.start(i, f"SetEnv HOME={self.hosts.homes[i]}\n" "ForceCommand cd / && PATH=/usr/bin:/bin && export PATH && "
                                "eval \"$(printf %s \"$SSH_ORIGINAL_COMMAND\" | sed s:only-here:nowhere:g)\"")
        without = subprocess.run([launcher, *args, "--out", self.path("o1")], cwd=self.dir, env=self.environment(),
                                 stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=cluster.PATIENCE)
        if shutil.which("dtrain", path="/usr/bin:/bin"):
            self.skipTest("dtrain is installed here")
        self.assertEqual(without.returncode, 2, without.stderr)
        self.assertIn("node1: there is no dtrain in the PATH", without.stderr)
        brought = subprocess.run([launcher, *args, "--sync", "--out", self.path("o2")], cwd=self.dir,
                                 env=self.environment(), stdin=subprocess.DEVNULL, text=True, capture_output=True,
                                 timeout=cluster.PATIENCE)
        self.assertEqual(brought.returncode, 0, brought.stderr)
        for home in self.hosts.homes:
            [stored] = os.listdir(os.path.join(home, ".cache", "dtrain"))
            self.assertEqual(os.listdir(os.path.join(home, ".cache", "dtrain", stored)), ["dtrain"])
        again = subprocess.run([launcher, *args, "--out", self.path("o3")], cwd=self.dir, env=self.environment(),
                               stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=cluster.PATIENCE)
        self.assertEqual(again.returncode, 0, again.stderr)


LIAR = """#!/usr/bin/env python3
# The agent of the real program, with something in between that does not pass all on as it came.
import json, os, subprocess, sys, threading, time
real = subprocess.Popen([{dtrain!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def there():
    for line in sys.stdin:
        real.stdin.write(line)
        real.stdin.flush()
    real.stdin.close()
threading.Thread(target=there, daemon=True).start()
def say(**message):
    print(json.dumps(message), flush=True)
for line in real.stdout:
    try:
        m = json.loads(line)
    except ValueError:
        continue
    kind = m["type"]
{lie}
    say(**m)
"""


class Liars(SshTest):
    """A host whose agent answers nonsense, or late: an error that names it, and never a bug of the launcher's."""

    def with_lie(self, lie, *args, **kwargs):
        script = cluster.write(self.path("liar"), LIAR.format(dtrain=cluster.DTRAIN, lie="    " + lie.replace("\n", "\n    ")))
        os.chmod(script, 0o755)
        return self.launch("--workers", 1, "--ps", 1, "--remote_dtrain", script, *args, **kwargs)

    def refused(self, lie, says, expect, *args):
        p = self.with_lie(lie, *args)
        self.assertEqual(p.wait(), expect, p.err)
        self.assertRegex(p.err, says)
        self.assert_no_process_left(WITHIN)

    def test_ports_that_are_none(self):
        for ports in ("[]", "[70000, 1]", "[0, 2500]", "[4294967295, 4294967295]"):
            self.refused(f"if kind == 'prepared': m['ports'] = {ports}", "node1: it answered with ports that are not those", 1)

    def test_problems_that_are_none(self):
        self.refused("if kind == 'prepared': m.update(ports=[], problems=[dict(code=0, text='nothing is wrong')])",
                     "node1: nothing is wrong", 1)

    def test_tasks_that_are_none(self):
        """What is said of tasks that are not there is passed over, and those of other hosts are not the agent's."""
        p = self.with_lie("if kind == 'line':\n    say(type='line', task=77, text='of nobody', rewrite=False)\n"
                          "    say(type='ready', task=77)\n    say(type='ended', task=77, value=0, signalled=False)\n"
                          "    say(type='reboot')\n    print('no message', flush=True)")
        self.assertEqual(p.wait(), 0, p.err)
        self.assertNotIn("of nobody", p.err)

    def test_ends_that_are_none(self):
        for value in (256, 4294967295):
            shutil.rmtree(self.path("out"), ignore_errors=True)
            self.refused(f"if kind == 'ended': m['value'] = {value}", "node1 says nonsense of its end", 4)

    def test_a_line_without_end(self):
        self.refused("if kind == 'prepared':\n    while True: sys.stdout.write('x' * 100000)",
                     "node1: the connection ended while it looked", 4)

    def test_a_host_that_floods_and_kills_nothing(self):
        p = self.with_lie("if kind == 'ready':\n    while True: say(type='line', task=m['task'], text='x' * 1000, rewrite=False)")
        p.says("xxxx")
        p.signal(signal.SIGINT)
        p.says("interrupted")
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(20), 130)
        self.assert_no_process_left(WITHIN)

    def test_a_look_that_takes_its_time(self):
        p = self.with_lie("if kind == 'prepared': time.sleep(6)\nif kind == 'alive': pass")
        self.assertEqual(p.wait(), 0, p.err)


class Patience(SshTest):
    def test_a_copy_that_takes_its_time(self):
        if not shutil.which("rsync"):
            self.skipTest("needs rsync")
        os.mkdir(self.path("tools"))
        slow = cluster.write(self.path("tools", "rsync"), f"#!/bin/sh\nsleep 6\nexec {shutil.which('rsync')} \"$@\"\n")
        os.chmod(slow, 0o755)
        p = self.launch("--workers", 2, "--ps", 1, "--sync_data", env={"PATH": self.path("tools") + ":" + os.environ["PATH"]})
        self.assertEqual(p.wait(), 0, p.err)

    def test_a_program_that_was_cut_is_no_program(self):
        """A connection that ends in the middle looks there like the end of the file."""
        home = self.hosts.homes[0]
        broken = cluster.write(self.path("ssh"), "#!/bin/sh\ncase \"$*\" in *'cat >'*) head -c 100000 | ssh \"$@\"; exit 255;; esac\n"
                                                 "exec ssh \"$@\"\n")
        os.chmod(broken, 0o755)
        other = cluster.write(self.path("bin", "dtrain") if os.makedirs(self.path("bin")) is None else "", "#!/bin/sh\nexit 2\n")
        os.chmod(other, 0o755)
        self.hosts.stop(0)
        self.hosts.start(0, f"SetEnv HOME={home} PATH={self.path('bin')}:/usr/bin:/bin\nForceCommand "
                            "eval \"$(printf %s \"$SSH_ORIGINAL_COMMAND\" | sed s:only-here:nowhere:g)\"")
        os.mkdir(self.path("only-here"))
        shutil.copy(cluster.DTRAIN, self.path("only-here", "dtrain"))
        args = [self.path("only-here", "dtrain"), "launch", self.run_toml, "--hostfile", self.hostfile, "--ssh_config",
                self.hosts.config, "--workers", "2", "--sync", "--out", self.path("out")]

        def run(*more):
            return subprocess.run([*args, *more], cwd=self.dir, env=self.environment(), stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=cluster.PATIENCE)
        cut = run("--ssh", broken)
        self.assertEqual(cut.returncode, 2, cut.stderr)
        self.assertIn("node1: dtrain cannot be copied there", cut.stderr)
        [stored] = os.listdir(os.path.join(home, ".cache", "dtrain"))
        self.assertEqual(os.listdir(os.path.join(home, ".cache", "dtrain", stored)), [], "nothing is left of it")
        whole = run()
        self.assertEqual(whole.returncode, 0, whole.stderr)

    def test_ctrl_c_during_a_copy(self):
        os.mkdir(self.path("tools"))
        slow = cluster.write(self.path("tools", "rsync"), "#!/bin/sh\n"
                             f": > {self.path('copying')}\n/bin/sh -c 'sleep 5; : {self.dir}' &\nexec sleep 1000 {self.dir}\n")
        os.chmod(slow, 0o755)
        for number in (signal.SIGINT, signal.SIGKILL):
            p = self.launch("--workers", 2, "--sync_data", env={"PATH": self.path("tools") + ":" + os.environ["PATH"]})
            cluster.until(lambda: os.path.exists(self.path("copying")), "the copy has begun")
            p.signal(number)
            p.wait()
            self.assert_no_process_left(WITHIN)
            os.remove(self.path("copying"))

    def test_a_terminal_that_stands_still(self):
        """Ctrl-S, or a pager: tasks on other hosts must not take their launcher for dead."""
        reader, writer = os.pipe()
        p = self.launch("--workers", 2, "--ps", 1, *LONG, stderr=writer)
        os.close(writer)
        self.addCleanup(os.close, reader)
        cluster.until(lambda: self.steps("out")[-1:] > [3000], lambda: f"more steps than a pipe holds: {self.steps('out')[-1:]}")
        begin = time.monotonic()
        cluster.until(lambda: time.monotonic() - begin > 6, "more time than agents wait")
        before = self.steps("out")[-1]
        cluster.until(lambda: self.steps("out")[-1] > before, "it goes on")
        p.signal(signal.SIGINT)
        cluster.until(lambda: not self.tasks(), lambda: f"no task is left: {self.tasks()}", WITHIN)
        self.assertEqual(p.wait(20), 130, "also where nobody reads its last words")


class OtherUsers(SshTest):
    """A host with a user and a home folder of its own, who sees nothing of what is here."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not shutil.which("useradd"):
            self.skipTest("needs root and useradd")
        self.user, self.home = f"dt{os.getpid()}", f"/tmp/dtrain-home-{os.getpid()}"
        made = subprocess.run(["useradd", "--home-dir", self.home, "--create-home", "--shell", "/bin/sh", self.user],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("no users can be made here: " + made.stderr)
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.addCleanup(subprocess.run, ["userdel", "--force", self.user], capture_output=True)
        self.hosts.stop(1)
        self.hosts.extra = f"AllowUsers {self.user}"
        # A user without a password is locked for sshd where PAM is not asked.
        subprocess.run(["usermod", "--password", "*", self.user], check=True, capture_output=True)
        self.hosts.start(1)
        self.hosts.extra = ""
        os.chmod(self.dir, 0o711)  # for the authorized keys
        os.chmod(self.path("hosts"), 0o711)
        os.chmod(self.path("hosts", "authorized_keys"), 0o644)

    def test_a_run_in_their_home(self):
        want = self.train(out="one")
        hostfile = cluster.write(self.path("h"), f"{self.user}@node2 slots=3\n")
        there = os.path.join(self.home, "a run")
        p = self.start("launch", "run.toml", "--hostfile", hostfile, "--ssh_config", self.hosts.config, "--workers", 2, "--ps",
                       1, "--sync_data", "--remote_dir", there, "--out", "out")
        self.assertEqual(p.wait(), 0, p.err)
        self.assertEqual(self.model_hash(there, "out"), want)
        import pwd
        self.assertEqual(os.stat(os.path.join(there, "out", "model.safetensors")).st_uid, pwd.getpwnam(self.user).pw_uid)


class Ends(SshTest):
    """apache/mxnet 4186 and 827, byteps 7: Ctrl-C left processes on other hosts. tensorflow 4713, mxnet 3787: servers
    never ended. pytorch 60910, DeepSpeed 1722: which task failed, and with what code."""

    def training(self, *args, **kwargs):
        p = self.launch("--workers", 3, "--ps", 1, *LONG, *args, **kwargs)
        self.wait_for_step(p, "out", 2)
        self.assertEqual(len(self.tasks()), 4)
        return p

    def test_ctrl_c_once(self):
        p = self.training()
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)
        self.assert_no_process_left(WITHIN)
        self.assertTrue(self.checkpoints("out"), p.err)

    def test_ctrl_c_twice(self):
        p = self.training()
        p.signal(signal.SIGINT)
        p.says("interrupted")
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)
        self.assert_no_process_left(WITHIN)

    def test_a_launcher_that_is_killed(self):
        p = self.training()
        p.signal(signal.SIGKILL)
        self.assert_no_process_left(WITHIN)

    def test_nohup(self):
        p = self.launch("--workers", 3, "--ps", 1, *LONG, within=["nohup"])
        self.wait_for_step(p, "out", 2)
        p.signal(signal.SIGHUP)
        begin = self.steps("out")[-1]
        cluster.until(lambda: self.steps("out")[-1] > begin + 20, "it goes on")
        p.signal(signal.SIGINT)
        self.assertEqual(p.wait(), 130, p.err)
        self.assertTrue(self.checkpoints("out"))

    def test_a_hang_up(self):
        p = self.training()
        p.signal(signal.SIGHUP)
        self.assertEqual(p.wait(), 130, p.err)
        self.assertIn("the terminal is gone", p.err)
        self.assert_no_process_left(WITHIN)

    def test_a_launcher_that_stands_still(self):
        p = self.training()
        p.signal(signal.SIGSTOP)
        self.addCleanup(p.signal, signal.SIGCONT)
        cluster.until(lambda: not self.tasks(), lambda: f"no task is left: {self.tasks()}", WITHIN)
        p.signal(signal.SIGCONT)
        self.assertEqual(p.wait(), 4, p.err)
        self.assertRegex(p.err, "lost: the connection to node[12] ended")

    def test_an_ssh_that_is_killed(self):
        p = self.training()
        [pid] = [pid for pid, line in cluster.processes_with(self.hosts.config).items()
                 if line.startswith("ssh ") and "node1" in line]
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(p.wait(), 4, p.err)
        self.assertRegex(p.err, "first failure: ps/0 on node1, lost: the connection to node1 ended")
        self.assert_no_process_left(WITHIN)

    def test_an_agent_that_is_killed(self):
        p = self.training()
        os.kill(self.agents()[0], signal.SIGKILL)
        self.assertEqual(p.wait(), 4, p.err)
        self.assert_no_process_left(WITHIN)

    def test_a_host_without_servers_is_lost(self):
        want = self.train("--set", "train.steps=4000", out="one")
        hostfile = cluster.write(self.path("h"), "node1 slots=2\nnode2 slots=2 role=worker\n")
        p = self.launch("--workers", 3, "--ps", 1, "--set", "train.steps=4000", "--set", "train.log_every=1", hostfile=hostfile)
        self.wait_for_step(p, "out", 2)
        self.hosts.stop(1)
        self.assertEqual(p.wait(), 0, p.err)
        self.assertRegex(p.err, r"worker/1 on node2: lost: the connection to node2 ended: .*; the run goes on without it")
        self.assertEqual(self.model_hash("out"), want)
        self.assert_no_process_left(WITHIN)

    def test_a_task_that_is_killed(self):
        p = self.training()
        os.kill(self.task_pid("ps", 0), signal.SIGKILL)
        self.assertEqual(p.wait(), 4, p.err)
        self.assertRegex(p.err, r"first failure: ps/0 on node1, killed by signal 9 \(Killed\); its last lines:\n")
        self.assertEqual(p.err.count("first failure"), 1)
        self.assertIn("all that the tasks said is in", p.err)
        self.assert_no_process_left(WITHIN)

    def test_a_failed_task_is_started_again(self):
        steps = ["--set", "train.steps=4000", "--set", "train.log_every=1", "--set", "train.checkpoint_every=20"]
        want = self.train(*steps, out="one")
        p = self.launch("--workers", 2, "--ps", 1, *steps, "--max_restarts", 3)
        self.wait_for_step(p, "out", 30)
        os.kill(self.task_pid("worker", 1), signal.SIGKILL)
        p.says(r"worker/1 on node2: killed by signal 9 \(Killed\); it is started again \(1 of 3\)")
        self.wait_for_step(p, "out", 60)
        os.kill(self.task_pid("ps", 0), signal.SIGKILL)
        p.says(r"the run is started again \(2 of 3\), from its newest checkpoint")
        self.assertEqual(p.wait(), 0, p.err)
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.steps("out"), list(range(1, 4001)))
        self.assert_no_process_left(WITHIN)

    def test_a_resumed_run_is_started_again(self):
        steps = ["--set", "train.log_every=1", "--set", "train.checkpoint_every=20"]
        self.launched("--workers", 2, "--ps", 1, *steps, "--set", "train.steps=40")
        p = self.launch("--workers", 2, "--ps", 1, *steps, "--set", "train.steps=4000", "--resume", "--max_restarts", 1)
        self.wait_for_step(p, "out", 60)
        os.kill(self.task_pid("ps", 0), signal.SIGKILL)
        self.assertEqual(p.wait(), 0, p.err)
        self.assertEqual(self.model_hash("out"), self.train(*steps, "--set", "train.steps=4000", out="one"))

    def test_rounds_of_random_deaths(self):
        """Fifty rounds take minutes: DTRAIN_ROUNDS=50 runs them all."""
        import random
        rounds, seed = int(os.environ.get("DTRAIN_ROUNDS", 6)), int(os.environ.get("DTRAIN_SEED", time.time_ns() % 10**6))
        draw, ends = random.Random(seed), {}
        print(f"  {rounds} rounds, seed {seed}", flush=True)
        for n in range(rounds):
            with self.subTest(round=n, seed=seed):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                for process in self.started:
                    process.signal(signal.SIGKILL)  # of a round that failed
                p = self.training()
                victim = draw.choice(["task", "agent", "ssh", "session", "sshd", "launcher"])
                if victim == "task":
                    os.kill(draw.choice(sorted(self.tasks())), signal.SIGKILL)
                elif victim == "agent":
                    os.kill(draw.choice(sorted(self.agents())), signal.SIGKILL)
                elif victim == "ssh":
                    os.kill(draw.choice([pid for pid, line in cluster.processes_with(self.hosts.config).items()
                                         if line.startswith("ssh ")]), signal.SIGKILL)
                elif victim == "session":
                    os.kill(draw.choice(sshd.sessions(draw.choice(self.hosts.servers).pid)), signal.SIGKILL)
                elif victim == "sshd":
                    host = draw.randrange(2)
                    self.hosts.stop(host)
                    self.hosts.start(host)
                else:
                    p.signal(signal.SIGKILL)
                if victim != "launcher" and "goes on without" in self.verdict(p):
                    p.signal(signal.SIGINT)  # workers alone were lost: the run goes on, and is ended here
                p.wait()
                self.assert_no_process_left(WITHIN)
                ends[victim] = ends.get(victim, 0) + 1
        print(f"  nothing left after {sum(ends.values())} of {rounds}: {ends}", flush=True)
        self.assertEqual(sum(ends.values()), rounds)

    def verdict(self, p):
        """What the launcher says of the first end that it sees."""
        return p.says(r"\[launch\] [^\n]*(killed by signal 9|lost: |exit code)[^\n]*\n").group(0)


if __name__ == "__main__":
    unittest.main()
