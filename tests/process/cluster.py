"""What the process tests share: a scratch folder with a small data set and a run file, processes of the real binary whose
output is collected, and waits that all have a deadline. The environment variable DTRAIN names the binary.

The deadlines are for a busy machine: a test that passes does not wait for them. Where a promise has a limit of its own
("within 10 s"), the test says so itself.
"""
import json, os, random, re, shutil, signal, socket, struct, subprocess, tempfile, threading, time, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DTRAIN = os.path.abspath(os.environ.get("DTRAIN") or os.path.join(ROOT, "build", "dtrain"))
PATIENCE = float(os.environ.get("PATIENCE", 120))  # seconds that anything may take on a busy machine

# Everything that could make a result depend on the cluster: batch norm, dropout, clipping by the global norm, an optimizer
# with state, shuffling, and K = 5 micro-batches, which two, three or four workers cannot share evenly.
RUN = """\
name = "small"
seed = 11

[data.train]
format = "idx"
images = "images.idx"
labels = "labels.idx"
shuffle = true

[train]
batch = 40
micro_batch = 8
threads = 1
steps = 40
log_every = 5
checkpoint_every = 0

[optimizer]
type = "adam"
lr = 0.002
clip_norm = 1.0

[network]
input = [1, 12, 12]
layers = [
  { name = "conv1", type = "conv2d", filters = 6, kernel = 3, bias = false },
  { name = "norm1", type = "batch_norm", activation = "relu" },
  { name = "pool1", type = "max_pool2d", kernel = 2 },
  { type = "flatten" },
  { type = "dropout", rate = 0.4 },
  { name = "dense1", type = "linear", units = 24, activation = "tanh" },
  { name = "dense2", type = "linear", units = 10 },
  { type = "softmax_cross_entropy" },
]
"""


def idx(shape, data):
    """An IDX file of bytes."""
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(data)


def write(path, content):
    with open(path, "wb" if isinstance(content, bytes) else "w") as f:
        f.write(content)
    return path


def write_images(folder, samples=600, size=12, seed=3):
    """images.idx and labels.idx: ten patterns under noise, always the same ones."""
    draw = random.Random(seed)
    patterns = [draw.randbytes(size * size) for _ in range(10)]
    labels = bytes(draw.randrange(10) for _ in range(samples))
    pixels = b"".join(bytes((a >> 1) + (b >> 1) for a, b in zip(patterns[label], draw.randbytes(size * size)))
                      for label in labels)
    write(os.path.join(folder, "images.idx"), idx((samples, size, size), pixels))
    write(os.path.join(folder, "labels.idx"), idx((samples,), labels))


def until(condition, what, deadline=PATIENCE):
    """Polls until the condition holds, and returns what it gave."""
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what() if callable(what) else what}")
        time.sleep(0.02)  # between two looks, never instead of one


def free_ports(count):
    """Ports that nobody listens on; all are held until the last is known, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def free_port_range(count):
    """The first of so many ports in a row that nobody has, below those that the system gives to connections."""
    draw = random.SystemRandom()
    for _ in range(200):
        first = draw.randrange(10_000, 32_000 - count)
        sockets = [socket.socket() for _ in range(count)]
        try:
            for i, s in enumerate(sockets):
                s.bind(("0.0.0.0", first + i))
            return first
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
    raise AssertionError(f"no {count} free ports in a row")


def processes_with(word):
    """pid → command line, of the living processes (no zombies) whose command line holds the word."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
            with open(f"/proc/{pid}/stat") as f:
                state = f.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue  # it has just ended
        if word in line and state not in "ZX":
            found[int(pid)] = line
    return found


class Process:
    """A running dtrain. Its outputs are read all the time, so that it never blocks on them."""

    def __init__(self, args, cwd, env, stderr=subprocess.PIPE, pass_fds=(), within=(), program=None):
        self.args = args
        self.popen = subprocess.Popen([*within, program or DTRAIN, *args], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=stderr, pass_fds=pass_fds)
        self.pid = self.popen.pid
        self._text = {"out": "", "err": ""}
        self._readers = []
        for key, stream in (("out", self.popen.stdout), ("err", self.popen.stderr)):
            if stream:
                self._readers.append(threading.Thread(target=self._read, args=(key, stream), daemon=True))
                self._readers[-1].start()

    def _read(self, key, stream):
        with stream:
            while chunk := os.read(stream.fileno(), 65536):
                self._text[key] += chunk.decode(errors="replace")

    @property
    def out(self):
        return self._text["out"]

    @property
    def err(self):
        return self._text["err"]

    def running(self):
        return self.popen.poll() is None

    def signal(self, number):
        if self.running():
            self.popen.send_signal(number)

    def says(self, pattern, deadline=PATIENCE):
        """Waits until its error output matches; fails at once where it has ended without."""
        def look():
            ended = not self.running()
            if ended:
                self._join()
            match = re.search(pattern, self.err)
            if ended and not match:
                raise AssertionError(f"{self} ended without saying {pattern!r}\n{self.err}")
            return match
        return until(look, lambda: f"{self} says {pattern!r}; it said\n{self.err}", deadline)

    def wait(self, deadline=PATIENCE):
        try:
            code = self.popen.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end within {deadline:g} s; it said\n{self.err}") from None
        self._join()
        return code

    def _join(self):
        for reader in self._readers:
            reader.join(10)

    def __str__(self):
        return "dtrain " + " ".join(self.args)


class ProcessTest(unittest.TestCase):
    """A test with a scratch folder, in which the binary runs; after it nothing is left, no file and no process."""
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not os.access(DTRAIN, os.X_OK):
            raise unittest.SkipTest(f"no binary {DTRAIN}: build it, or name it by DTRAIN")

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="dtrain-process-")
        self.started = []
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup(self._leave_nothing)
        write_images(self.dir)
        self.run_toml = write(self.path("run.toml"), RUN)

    def _leave_nothing(self):
        for process in self.started:
            if process.running():
                process.signal(signal.SIGKILL)
                process.wait()
        self.assert_no_process_left(10)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def environment(self, extra=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("DTRAIN") and k != "NO_COLOR"}
        return {**env, **(extra or {})}

    def start(self, *args, env=None, **kwargs):
        process = Process([str(a) for a in args], self.dir, self.environment(env), **kwargs)
        self.started.append(process)
        return process

    def dtrain(self, *args, expect=0, env=None, deadline=PATIENCE):
        """Runs to the end and checks the exit code."""
        process = self.start(*args, env=env)
        code = process.wait(deadline)
        self.assertEqual(code, expect, f"{process}\n{process.out}{process.err}")
        return process

    def train(self, *args, out, **kwargs):
        """`run` in one process, or `launch` where the number of workers is given; the model's hash."""
        command = "launch" if "--workers" in args else "run"
        self.dtrain(command, self.run_toml, *args, "--out", self.path(out), **kwargs)
        return self.model_hash(out)

    def model_hash(self, *names):
        """Of a run's model, or of any other file or folder in the scratch folder."""
        path = self.path(*names)
        if os.path.exists(os.path.join(path, "model.safetensors")):
            path = os.path.join(path, "model.safetensors")
        match = re.search(r"^model ([0-9a-f]{64})$", self.dtrain("inspect", path, "--hash").out, re.M)
        self.assertTrue(match, f"no hash of {path}")
        return match.group(1)

    def rows(self, out):
        """The whole lines of metrics.jsonl so far."""
        try:
            with open(self.path(out, "metrics.jsonl"), encoding="utf-8") as f:
                return [json.loads(line) for line in f.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []

    def steps(self, out):
        return [row["step"] for row in self.rows(out) if "event" not in row]

    def events(self, out, name):
        return [row for row in self.rows(out) if row.get("event") == name]

    def checkpoints(self, out):
        """The names of the complete checkpoints, oldest first."""
        folder = self.path(out, "checkpoints")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        # One that is being written has its manifest a moment before its name.
        return [n for n in names if n.startswith("step-") and os.path.exists(os.path.join(folder, n, "manifest.json"))]

    def wait_for_step(self, process, out, step):
        """Until metrics.jsonl has the step; training must not be over by then."""
        def look():
            reached = self.steps(out)
            if not process.running():
                raise AssertionError(f"{process} ended too early\n{process.err}")
            return reached and reached[-1] >= step
        until(look, lambda: f"step {step}, it is at {self.steps(out)[-1:]}\n{process.err}")

    def task_pid(self, job, index):
        """The process of a task of this test's cluster."""
        def look():
            return [pid for pid, line in processes_with(self.dir).items()
                    if f"--job_name {job} " in line and f"--task_id {index} " in line]
        return until(look, f"a process of {job} {index}")[0]

    def assert_no_process_left(self, within):
        """Every process that knows the scratch folder is gone."""
        until(lambda: not processes_with(self.dir), lambda: f"all processes gone, but {processes_with(self.dir)}", within)

    # Tasks that are started by hand.

    def cluster(self, workers, ps=0):
        """A spec for --cluster_spec on free ports, and the port of each task by (job, index)."""
        ports = free_ports(workers + ps)
        jobs, at = [], {}
        for job, count in (("ps", ps), ("worker", workers)):
            for i in range(count):
                at[job, i] = ports.pop()
            if count:
                jobs.append(f"{job}|" + ";".join(f"127.0.0.1:{at[job, i]}" for i in range(count)))
        return ",".join(jobs), at

    def start_task(self, spec, job, index, *args, out="out", run=None):
        return self.start("run", run or self.run_toml, "--cluster_spec", spec, "--job_name", job, "--task_id", index,
                          "--out", self.path(out), *args)

    def assert_all_done(self, tasks):
        for task in tasks:
            self.assertEqual(task.wait(), 0, f"{task}\n{task.err}")


class DisturbedRunTest(ProcessTest):
    """Tests that disturb a run of the flags FLAGS: `want` is the hash of the undisturbed one."""
    FLAGS = []
    undisturbed = {}  # hashes by flags, once some test has computed them

    def setUp(self):
        super().setUp()
        key = tuple(map(str, self.FLAGS))
        if key not in self.undisturbed:
            self.undisturbed[key] = self.train(*self.FLAGS, out="undisturbed")
        self.want = self.undisturbed[key]
