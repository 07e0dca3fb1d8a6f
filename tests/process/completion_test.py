#!/usr/bin/env python3
"""Real shells complete dtrain's command line with the scripts that dtrain prints."""
import os, pty, re, select, shutil, subprocess, time, unittest
from cluster import PATIENCE, ProcessTest, write


class Terminal:
    """An interactive shell on a terminal of its own, and all that it has written there."""

    def __init__(self, args, cwd, env):
        self.output = ""
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(cwd)
            os.execvpe(args[0], args, env)
        self.pid = pid

    def write(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, since=0):
        """Waits until what was written after `since` matches."""
        end = time.monotonic() + PATIENCE
        while not (match := re.search(pattern, self.output[since:])):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{pattern!r} did not come; there was\n{self.output[since:]}")
            try:
                self.output += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"the shell ended; it wrote\n{self.output}") from None
        return match

    def close(self):
        os.close(self.fd)  # hangs up
        os.waitpid(self.pid, 0)


class Completion(ProcessTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("work"))
        os.makedirs(self.path("work", "folder", "below"))
        for name in ("first.toml", "second file.toml", "notes.txt"):
            write(self.path("work", name), "")

    def script(self, shell):
        return self.dtrain("completion", shell).out

    def test_an_unknown_shell_is_an_error(self):
        self.assertIn("SHELL", self.dtrain("completion", "fish", expect=2).err)
        self.dtrain("completion", expect=2)
        self.assertNotIn("completion", self.dtrain("--help").out)


@unittest.skipUnless(shutil.which("bash"), "no bash")
class Bash(Completion):
    # Calls what the shell would call, with the words as the shell would cut them.
    DRIVER = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dtrain; '
    DRIVER += 'for reply in "${COMPREPLY[@]}"; do echo "$reply"; done'

    def complete(self, *words):
        write(self.path("script"), self.script("bash"))
        p = subprocess.run(["bash", "-u", "-c", self.DRIVER, "bash", self.path("script"), "dtrain", *words], cwd=self.path("work"),
                           text=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        return sorted(p.stdout.split("\n")[:-1])

    def test_commands_and_parts(self):
        self.assertEqual(self.complete("ru"), ["run"])
        everything = self.complete("")
        self.assertIn("simulate", everything)
        self.assertNotIn("completion", everything)
        self.assertEqual(self.complete("benchmark", ""), ["compress", "data", "scaling", "step", "wire"])
        self.assertEqual(self.complete("params", "p"), ["put"])
        self.assertEqual(self.complete("--v"), ["--version"])

    def test_flags_in_both_spellings(self):
        self.assertEqual(self.complete("run", "--task"), ["--task_id", "--task_index"])
        self.assertEqual(self.complete("run", "--task-"), ["--task-id", "--task-index"])
        self.assertEqual(self.complete("run", "first.toml", "--resume", "--allow_"), ["--allow_guests", "--allow_put"])
        self.assertEqual(self.complete("benchmark", "step", "--prof"), ["--profile"])
        self.assertEqual(self.complete("run", "--listen_"), [], "a flag for the launcher")

    def test_every_flag_of_every_help(self):
        """What --help shows is what is completed."""
        for command in (["run"], ["launch"], ["check"], ["simulate"], ["params", "get"], ["benchmark", "wire"]):
            lines = [line for line in self.dtrain(*command, "--help").out.splitlines() if line.startswith("  -")]
            shown = {name for line in lines for name in line.split()[0].split(",") if name.startswith("--")}
            self.assertGreater(len(shown), 3, command)
            offered = set(self.complete(*command, "--"))
            for flag in shown:
                self.assertTrue(flag in offered or self.complete(*command, flag) == [flag], f"{command} {flag}")

    def test_words_that_a_flag_takes(self):
        self.assertEqual(self.complete("eval", "x.toml", "--data", ""), ["test", "train"])
        self.assertEqual(self.complete("eval", "--data", "=", "tr"), ["train"])
        self.assertEqual(self.complete("eval", "--data", "="), ["test", "train"])
        self.assertEqual(self.complete("eval", "--data=te"), ["--data=test"])
        self.assertEqual(self.complete("run", "--job_name", ""), [])

    def test_files_and_folders(self):
        self.assertEqual(self.complete("run", ""), ["first.toml", "folder", "second file.toml"])
        self.assertEqual(self.complete("run", "sec"), ["second file.toml"])
        self.assertEqual(self.complete("run", "--out", "o", ""), ["first.toml", "folder", "second file.toml"])
        self.assertEqual(self.complete("run", "first.toml", ""), [])
        self.assertEqual(self.complete("run", "--out", ""), ["folder"])
        self.assertEqual(self.complete("run", "--out", "folder/"), ["folder/below"])
        self.assertEqual(self.complete("run", "--cluster", "n"), ["notes.txt"])
        self.assertEqual(self.complete("params", "get", "conv1", "--out", "n"), ["notes.txt"])
        self.assertEqual(self.complete("inspect", "n"), ["notes.txt"])

    def test_in_a_shell_on_a_terminal(self):
        write(self.path("script"), self.script("bash"))
        t = Terminal(["bash", "--noprofile", "--norc", "-i"], self.path("work"), {**self.environment(), "PS1": "ready> ", "TERM": "dumb",
                     "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"})
        self.addCleanup(t.close)
        t.write(f"dtrain() {{ printf 'was<%s>' \"$@\"; }}; source {self.path('script')}\n")
        t.write("dtrain ru\tsec\t --data\t\n")
        t.expect(r"was<run>was<second file\.toml>was<--data>")
        t.write("dtrain pred\t fir\t --fo\tj\t\n")
        t.expect(r"was<predict>was<first\.toml>was<--format>was<jsonl>")


@unittest.skipUnless(shutil.which("zsh"), "no zsh")
class Zsh(Completion):
    def shell(self):
        os.mkdir(self.path("functions"))
        write(self.path("functions", "_dtrain"), self.script("zsh"))
        os.mkdir(self.path("home"))
        t = Terminal(["zsh", "-f", "-i"], self.path("work"), {**self.environment(), "TERM": "dumb", "HOME": self.path("home"), "PS1": "> "})
        self.addCleanup(t.close)
        # What is offered is listed one a line between two marks; nothing is asked, nothing is inserted on the way.
        t.write("unsetopt zle; autoload -Uz compinit; fpath=(" + self.path("functions") + " $fpath); compinit -u -d "
                + self.path("dump") + "; setopt zle; dtrain() { printf 'was<%s>' \"$@\"; print }; bindkey -e; "
                "unsetopt automenu listbeep; LISTMAX=9999; print read''y\n")
        t.expect("ready")
        return t

    def typed(self, t, keys, pattern):
        since = len(t.output)
        t.write(keys)
        match = t.expect(pattern, since)
        t.write("\x15")  # empties the line
        return match

    def test_commands_flags_words_and_files(self):
        t = self.shell()
        self.typed(t, "dtrain ru\tsec\t --resu\t\n", r"was<run>was<second file\.toml>was<--resume>")
        self.typed(t, "dtrain benchmark co\t --rou\t\n", r"was<benchmark>was<compress>was<--rounds(=|>)")
        self.typed(t, "dtrain eval fir\t --data tr\t\n", r"was<eval>was<first\.toml>was<--data>was<train>")
        self.typed(t, "dtrain eval fir\t --data=te\t\n", r"was<eval>was<first\.toml>was<--data=test>")
        self.typed(t, "dtrain run --out fol\tbe\t\n", r"was<run>was<--out>was<folder/below/?>")
        self.typed(t, "dtrain run first.toml --cluster no\t\n", r"was<--cluster>was<notes\.txt>")

    def test_what_is_offered_is_explained(self):
        t = self.shell()
        self.typed(t, "dtrain \t\t", r"simulate +-- ")
        listing = self.typed(t, "dtrain run --task\t\t", r"(?s)--task.id[^\n]*-- the index of this task").group()
        self.assertIn("--task", listing)
        self.typed(t, "dtrain run --task-id 1 --task-in\t\n", r"was<run>was<--task-id>was<1>was<--task-in>")


if __name__ == "__main__":
    unittest.main()
