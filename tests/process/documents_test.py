#!/usr/bin/env python3
"""README.md and the guides are true: every command in them is run as it stands there, by the rules of document.py, and what
it prints is what they show. The hosts node1 and node2 of which they speak are real ssh servers on loopback addresses."""
import glob, os, re, shutil, signal, subprocess, sys, tempfile, time, unittest

import cluster, document, slurm_cluster, sshd

DOCUMENTS = [os.path.join(cluster.ROOT, "README.md"), *sorted(glob.glob(os.path.join(cluster.ROOT, "man", "guide", "*.md")))]
PORTS = r"\b(?:127\.\d+\.\d+\.\d+|node\d):\d+\b"

# Whoever types `pkill dtrain` means the processes of this host, which all have its home folder.
PKILL = """\
#!{python}
import os, re, signal, sys
[name] = [w for w in sys.argv[1:] if not w.startswith("-")]
number = next((int(w[1:]) for w in sys.argv[1:] if re.fullmatch(r"-\\d+", w)), signal.SIGTERM)
home, hit = "HOME=" + os.environ["HOME"], False
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    try:
        environment = open(f"/proc/{{pid}}/environ", "rb").read().decode(errors="replace").split("\\0")
        line = open(f"/proc/{{pid}}/cmdline", "rb").read().replace(b"\\0", b" ").decode(errors="replace")
        called = open(f"/proc/{{pid}}/comm").read().strip()
    except OSError:
        continue
    if home in environment and called == "dtrain" and re.search(name, line if "-f" in sys.argv else called):
        os.kill(pid, number)
        hit = True
sys.exit(not hit)
"""


class Terminal:
    """Where commands are typed, one after the other; the last one may still be running."""

    def __init__(self, test):
        self.test, self.process, self.log, self.seen, self.code = test, None, None, 0, 0

    def type(self, command):
        self.test.count += 1
        self.log = os.path.join(self.test.aside, f"output-{self.test.count}")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["bash", "-c", f"set -o pipefail\n(exit {self.code})\n{command}"], cwd=self.test.dir,
                                            env=self.test.surroundings, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.test.processes.append(self.process)
        self.seen = 0

    def lines(self):
        """Those that have been printed and not been shown; only whole ones while more may come."""
        whole = self.process is None or self.process.poll() is not None
        with open(self.log, encoding="utf-8", errors="replace") as f:
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", f.read())
        lines = text.split("\n") if whole else text.split("\n")[:-1]
        return [line for line in lines if line.strip()][self.seen:]

    def running(self):
        return self.process is not None and self.process.poll() is None

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        """Waits for the end of what runs."""
        if self.process is not None:
            cluster.until(lambda: not self.running(), lambda: "the command does not end; it printed\n" + "\n".join(self.lines()))
            self.code, self.process = self.process.wait(), None


class Documents(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        if not os.access(cluster.DTRAIN, os.X_OK):
            raise unittest.SkipTest(f"no binary {cluster.DTRAIN}: build it, or name it by DTRAIN")

    def setUp(self):
        self.processes, self.count, self.names, self.terminals = [], 0, document.Names(), {}
        self.dir = tempfile.mkdtemp(prefix="dtrain-documents-")
        self.aside = tempfile.mkdtemp(prefix="dtrain-aside-")  # what the documents do not see
        for folder in (self.dir, self.aside):
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.addCleanup(self.leave_nothing)
        self.bin = os.path.join(self.aside, "bin")
        os.mkdir(self.bin)
        os.symlink(cluster.DTRAIN, os.path.join(self.bin, "dtrain"))
        self.program("pkill", PKILL.format(python=sys.executable))
        # Whatever engine started the tests themselves is not theirs.
        engines = r"DTRAIN|OMPI_|PMIX_|SLURM_|TF_CONFIG|MASTER_|RANK$|WORLD_SIZE|NOTIFY_SOCKET|OMP_"
        env = {k: v for k, v in os.environ.items() if not re.match(engines, k)}
        self.surroundings = {**env, "PATH": f"{self.bin}:{env['PATH']}", "HOME": self.aside, "TMPDIR": self.aside,
                             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                             "OMPI_MCA_rmaps_base_oversubscribe": "1"}

    def program(self, name, text):
        os.chmod(cluster.write(os.path.join(self.bin, name), text), 0o755)

    def leave_nothing(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also what a command has left in the background
            except ProcessLookupError:
                pass
            process.wait()

    def make_hosts(self):
        hosts = sshd.Hosts(os.path.join(self.aside, "hosts"), 2)
        hosts.__enter__()
        self.addCleanup(hosts.__exit__, None, None, None)
        # What a person types, ssh HOST COMMAND, meets this test's programs on the host too, whichever shell is there.
        self.program("ssh", f"""\
#!/bin/sh
ssh="{shutil.which('ssh')} -F {hosts.config}"
case "$1" in
  -*) exec $ssh "$@" ;;
  *) host=$1; shift; exec $ssh -o StrictHostKeyChecking=accept-new "$host" "PATH={self.bin}:\\$PATH; $*" ;;
esac
""")
        for host in hosts.names:  # or a document's pkill would mean everybody's processes
            p = subprocess.run(["ssh", host, "command -v pkill"], env=self.surroundings, capture_output=True, text=True,
                               timeout=cluster.PATIENCE)
            self.assertEqual(p.stdout.strip(), os.path.join(self.bin, "pkill"), p.stderr)

    def make_slurm(self):
        slurm = slurm_cluster.SlurmCluster(os.path.join(self.aside, "slurm"))
        self.addCleanup(slurm.stop)
        self.surroundings["SLURM_CONF"] = slurm.conf

    def run_document(self, path):
        name, begin = os.path.relpath(path, cluster.ROOT), time.monotonic()
        blocks = [b for b in document.read(path) if not b.says("not run")]
        if any(re.search(r"--hostfile|\bssh ", b.text) for b in blocks):
            why = sshd.possible()
            if why:
                self.skipTest(why)
            self.make_hosts()
        without = {}  # program → why what needs it is not run
        for program in {b.says("needs") for b in blocks} - {None}:
            without[program] = "" if shutil.which(program) else f"no {program}"
        if without.get("srun") == "":
            without["srun"] = slurm_cluster.missing()
            if not without["srun"]:
                self.make_slurm()
        if name == "README.md":
            shutil.copytree(os.path.join(cluster.ROOT, "configs"), os.path.join(self.dir, "configs"))
        for block in blocks:
            if without.get(block.says("needs")):
                print(f"  {name}:{block.line}: not run: {without[block.says('needs')]}", flush=True)
                continue
            try:
                self.run_block(block)
            except AssertionError as e:
                raise AssertionError(f"{name}:{block.line}: {e}") from None
        for terminal in self.terminals.values():
            self.assertFalse(terminal.running(), "a command of which the document does not show the end")
        print(f"  {name}: {self.count} commands, {time.monotonic() - begin:.1f} s", flush=True)

    def run_block(self, block):
        terminal = self.terminals.setdefault(block.says("terminal") or "", Terminal(self))
        if block.kind in ("toml", "text"):
            self.write_file(block)
        elif block.kind == "sh":
            terminal.code = 0
            terminal.type("set -eu\n" + self.with_ports(block.text))
            terminal.end()
            self.assertEqual(terminal.code, 0, f"{block.text}" + "\n".join(terminal.lines()))
        else:
            self.converse(block, terminal)

    def write_file(self, block):
        name = block.says("file") or f"checked-{block.line}.toml"
        path, text = os.path.join(self.dir, name), self.with_ports(block.text)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not block.says("with"):
            cluster.write(path, text)
            return
        cluster.write(path, f'include = ["{block.says("with")}"]\n' + text)
        p = subprocess.run(["dtrain", "check", name], cwd=self.dir, env=self.surroundings, text=True, capture_output=True,
                           timeout=cluster.PATIENCE)
        self.assertEqual(p.returncode, 0, p.stderr)

    def converse(self, block, terminal):
        """Types the commands, and looks whether they print what is shown."""
        dialogue = document.commands(block.text)
        for i, (command, lines) in enumerate(dialogue):
            if command is not None:
                self.finish(terminal, "$?" in command)
                terminal.type(self.with_ports(command))
            pieces = "\n".join(lines).split("\n^C")
            for n, piece in enumerate(pieces):
                if n > 0:
                    terminal.interrupt()
                may_go_on = n + 1 < len(pieces) or bool(block.says("terminal")) and i + 1 == len(dialogue)
                self.expect(terminal, piece.split("\n"), may_go_on)
            if command is not None and "$?" in command:  # which of them it is matters
                with open(terminal.log, encoding="utf-8") as f:
                    self.assertEqual(f.read().split(), "\n".join(lines).split(), command)
        if not block.says("terminal"):
            self.finish(terminal, False)

    def finish(self, terminal, is_asked_how):
        """The command before has shown all that it prints; it has ended well, unless the next one asks how."""
        if terminal.process is not None:
            terminal.end()
            self.assertEqual(terminal.lines(), [], "printed, but not shown")
        if not is_asked_how:
            self.assertEqual(terminal.code, 0, "exit code")

    def expect(self, terminal, lines, may_go_on):
        shown = document.Shown(lines, self.names)

        def look():
            ended = not terminal.running()
            if not ended and not may_go_on:
                return False
            found = shown.found_in(terminal.lines(), whole=not may_go_on)
            if ended and not found:
                raise AssertionError(shown.why + "\nall of it:\n" + "\n".join(terminal.lines()))
            return found
        cluster.until(look, lambda: shown.why + "\nall of it:\n" + "\n".join(terminal.lines()))
        terminal.seen += shown.used

    def with_ports(self, text):
        """Ports of this machine become free ones, the same wherever the document has them."""
        for shown in re.findall(PORTS, text) + [f"127.0.0.1:{p}" for p in re.findall(r"MASTER_PORT=(\d+)", text)]:
            if shown not in self.names.real:
                host = shown.rsplit(":", 1)[0]
                self.names.learn([(shown, f"{host}:{cluster.free_ports(1)[0]}")])
        text = self.names.put(text)
        return re.sub(r"(MASTER_PORT=)(\d+)", lambda m: m[1] + self.names.real[f"127.0.0.1:{m[2]}"].rsplit(":", 1)[1], text)


def test_of(path):
    return lambda self: self.run_document(path)


for document_path in DOCUMENTS:
    setattr(Documents, "test_" + os.path.basename(document_path)[:-3].lower().replace("-", "_"), test_of(document_path))


class Files(unittest.TestCase):
    def test_every_relative_link_leads_somewhere(self):
        tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=cluster.ROOT, text=True, capture_output=True).stdout.split()
        self.assertIn("README.md", tracked)
        for name in tracked:
            with open(os.path.join(cluster.ROOT, name), encoding="utf-8") as f:
                text = re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
                target = (link[0] or link[1]).split("#")[0]
                if target and not re.match(r"[a-z]+:", target):
                    self.assertTrue(os.path.exists(os.path.join(cluster.ROOT, os.path.dirname(name), target)), f"{name}: {target}")

    def test_mistakes_in_documents_are_found(self):
        for text, why in (("```bash\nls\n```\n", "unknown kind"), ("<!-- not run: because -->\n```sh\nls\n```\n", "without a reason"),
                          ("<!-- note: this -->\n", "unknown comment"), ("```toml\na = 1\n```\n", "of which file"),
                          ("```sh\nls\n", "without an end"), ("text\n\n    ls\n", "an indented block"),
                          ("<!-- terminal: a -->\n```sh\nls\n```\n", "cannot have terminal"),
                          ("<!-- file: a -->\n\ntext\n", "that is not there")):
            with tempfile.NamedTemporaryFile("w", suffix=".md") as f:
                f.write(text)
                f.flush()
                with self.assertRaisesRegex(document.Mistake, why):
                    document.read(f.name)

    def test_what_is_printed_is_compared(self):
        def found(shown, printed, whole=True, names=None):
            return document.Shown(shown.split("\n"), names or document.Names()).found_in(printed.split("\n"), whole)

        self.assertTrue(found("step 5/10  1.5 s left", "step 123/469  8 min left"))
        self.assertFalse(found("step 5/10", "stop 5/10"))
        self.assertTrue(found("a\n...\nd", "a\nb\nc\nd"))
        self.assertFalse(found("a\nd", "a\nb\nc\nd"))
        self.assertFalse(found("a", "a\nb"))
        self.assertTrue(found("a", "a\nb", whole=False))
        self.assertTrue(found("a\n...", "a\nb"))
        self.assertTrue(found("...\nstep 9/9\ndone", "step 1/9\nstep 5/9\nstep 9/9\ndone"))
        self.assertTrue(found("...\nstep 9/9", "step 1/9\nstep 5/9\nstep 9/9"))
        self.assertFalse(found("...\nstep 9/9", "step 1/9\nstep 5/9\ndone"))
        self.assertFalse(found("a\n...\nb", "b"))
        self.assertFalse(found("...\nb", "a"))
        self.assertFalse(found("a\nb", "a"))
        one, other = "ab" * 32, "cd" * 32
        self.assertTrue(found(f"model {one}\nmodel {one}", f"model {other}\nmodel {other}"))
        self.assertFalse(found(f"model {one}\nmodel {one}", f"model {other}\nmodel {one}"))
        self.assertFalse(found(f"model {one}\nmodel {other}", f"model {one}\nmodel {one}"))
        names = document.Names()
        self.assertTrue(found("at 127.0.0.1:5 now", "at 127.0.0.2:77 now", names=names))
        self.assertEqual(names.put("top --ps 127.0.0.1:5"), "top --ps 127.0.0.2:77")


if __name__ == "__main__":
    unittest.main(verbosity=2)
