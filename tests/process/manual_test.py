#!/usr/bin/env python3
"""The manual: every page renders without a warning, names its sections, and says what each flag of its command does."""
import glob, os, re, shutil, subprocess, unittest
from cluster import ROOT, ProcessTest

PAGES = sorted(glob.glob(os.path.join(ROOT, "man", "*.scd")))


class Manual(ProcessTest):
    def source(self, name):
        with open(os.path.join(ROOT, "man", name + ".scd"), encoding="utf-8") as f:
            return f.read()

    @unittest.skipUnless(shutil.which("scdoc") and shutil.which("man"), "no scdoc or no man")
    def test_every_page_renders_without_a_warning(self):
        env = {**self.environment(), "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"}
        self.assertGreater(len(PAGES), 10)
        for path in PAGES:
            name = os.path.basename(path).removesuffix(".scd")
            with self.subTest(page=name):
                with open(path, "rb") as source, open(self.path(name), "wb") as page:
                    p = subprocess.run(["scdoc"], stdin=source, stdout=page, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual((p.returncode, p.stderr), (0, b""))
                p = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", self.path(name)], env=env, text=True,
                                   capture_output=True, timeout=60)
                self.assertEqual((p.returncode, p.stderr), (0, ""))
                text = re.sub(".\x08", "", p.stdout)  # bold is a letter over itself
                for section in ("NAME", "DESCRIPTION", "SEE ALSO"):
                    self.assertTrue(re.search(rf"^{section}$", text, re.M), f"no {section}")

    def test_every_flag_is_in_the_manual(self):
        commands = re.findall(r"^  (\w+)  ", self.dtrain("--help").out, re.M)
        self.assertIn("run", commands)
        missing = []
        for command in commands:
            page = self.source(f"dtrain-{command}.1")
            # What run says of its flags is not said again by those who hand them on.
            if "*dtrain-run*(1)" in page:
                page += self.source("dtrain-run.1")
            for help_text in self.helps(command):
                for line in re.findall(r"^  (-\S+)", help_text, re.M):
                    flag = next((f for f in line.split(",") if f.startswith("--")), line)
                    if flag != "--help" and flag.replace("_", "") not in page.replace("\\_", "_").replace("_", ""):
                        missing.append(f"{command} {flag}")
        self.assertEqual(missing, [])

    def helps(self, command):
        """What --help says of the command and of each of its parts."""
        text = self.dtrain(command, "--help").out
        parts = re.findall(r"^  (\w+) ", text.split("Subcommands:\n")[1], re.M) if "Subcommands:" in text else []
        return [text] + [self.dtrain(command, part, "--help").out for part in parts]


if __name__ == "__main__":
    unittest.main()
