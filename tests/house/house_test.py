#!/usr/bin/env python3
"""Keeps the house: which module may include which, how long files are, what may not be named below cmd/, and that every
test is built. The arrows are those of CMakeLists.txt."""
import os, re, subprocess, unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def tracked(*patterns):
    """Files of the tree: what git tracks; where there is no git, or no clone, all that lies there but what was built."""
    try:
        p = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        names = p.stdout.split() if p.returncode == 0 else []
    except FileNotFoundError:
        names = []
    if not names:
        for folder, inside, files in os.walk(ROOT):
            inside[:] = [d for d in inside if d not in (".git", "runs") and not d.startswith("build")]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return [n for n in names if os.path.exists(os.path.join(ROOT, n))]


def sources(*folders, ends=(".h", ".cc")):
    return [n for n in tracked() if n.startswith(folders) and n.endswith(ends)]


def modules():
    """name → (folder, modules that it may include), from the calls of dtrain_module."""
    text = re.sub(r"\s+", " ", re.sub(r"#.*", "", read("CMakeLists.txt")))
    out = {}
    for m in re.finditer(r"dtrain_module\((\w+) DIR (\S+) (?:HARDENED )?DEPS ([^)]*)\)", text):
        deps = m.group(3).split(" LIBS ")[0].replace('"', "").split()
        out[m.group(1)] = (m.group(2), deps)
    return out


class House(unittest.TestCase):
    def test_arrows(self):
        mods = modules()
        self.assertGreater(len(mods), 15)
        by_folder = {folder: name for name, (folder, _) in mods.items()}
        wrong = []
        for path in sources("lib/", "proto-free-wire/"):
            folder = os.path.dirname(path)
            folder = "proto-free-wire" if folder.startswith("proto-free-wire") else folder
            name = by_folder.get(folder)
            self.assertIsNotNone(name, f"{path} belongs to no module of CMakeLists.txt")
            for inc in re.findall(r'^#include "([^"]+)"', read(path), re.M):
                target = os.path.dirname(inc)
                target = "proto-free-wire" if target.startswith("proto-free-wire") else "lib/" + target
                other = by_folder.get(target)
                if other is None or (other != name and other not in mods[name][1]):
                    wrong.append(f"{path} includes {inc}: {name} may include {mods[name][1]}")
        self.assertEqual(wrong, [])

    def test_no_circles(self):
        mods, order = modules(), []
        for name, (_, deps) in mods.items():  # declared in order: a module may only include those above it
            for dep in deps:
                self.assertIn(dep, order, f"{name} includes {dep}, which is declared below it")
            order.append(name)

    def test_sizes(self):
        long = [f"{p}: {n} lines" for p in sources("lib/", "cmd/", "proto-free-wire/")
                for n in [read(p).count("\n")] if n > (200 if p.endswith(".h") else 500)]
        self.assertEqual(long, [])

    def test_headers_are_guarded_and_say_what_they_are(self):
        bad = [p for p in sources("lib/", "cmd/", "proto-free-wire/", ends=(".h",))
               if not read(p).startswith("//") or "#pragma once" not in read(p)]
        self.assertEqual(bad, [])

    def test_heavy_headers_stay_inside(self):
        heavy = re.compile(r'^#include <(asio|oneapi|toml\+\+|CLI|cuda|cudnn)', re.M)
        allowed = {"lib/ops/cpu/onednn.h", "cmd/flags.h"}
        bad = [p for p in sources("lib/", "cmd/", "proto-free-wire/", ends=(".h",))
               if heavy.search(read(p)) and p not in allowed and not p.startswith("lib/net/asio/")]
        self.assertEqual(bad, [])

    def test_nothing_ambient_below_cmd(self):
        ambient = re.compile(r"\b(getenv|std::cout|std::cerr|printf\(stdout|rand\(\)|random_device|system_clock)\b")
        allowed = {"lib/base/clock.cc"}
        bad = [f"{p}: {m.group(0)}" for p in sources("lib/", "proto-free-wire/") if p not in allowed
               for m in [ambient.search(read(p))] if m]
        self.assertEqual(bad, [])

    def test_no_vague_file_names(self):
        vague = re.compile(r"(^|_)(utils?|common|helpers?|managers?|misc)(_|\.|$)")
        bad = [p for p in sources("lib/", "cmd/", "proto-free-wire/", "tests/") if vague.search(os.path.basename(p))]
        self.assertEqual(bad, [])

    def test_no_unordered_containers_where_values_are_made(self):
        bad = [p for p in sources("lib/", "proto-free-wire/") if re.search(r"std::unordered_(map|set)", read(p))]
        self.assertEqual(bad, [])

    def test_every_test_is_built(self):
        mods = modules()
        lost = [p for p in sources("tests/", ends=("_test.cc",)) if p.split("/")[1] not in mods or p.count("/") != 2]
        self.assertEqual(lost, [])

    def test_nothing_is_left_for_later(self):
        later = re.compile(r"\b(TODO|FIXME|XXX\b|HACK|DISABLED_)")
        bad = [p for p in sources("lib/", "cmd/", "proto-free-wire/", "tests/") if later.search(read(p))]
        self.assertEqual(bad, [])

    def test_every_command_has_its_page_and_every_message_its_row(self):
        commands = re.findall(r"&k(\w+)", read("cmd/commands.h"))
        for command in commands:
            self.assertIn(f"man/dtrain-{command.lower()}.1.scd", tracked("man"), "a command without its page")
        rows = read("proto-free-wire/FORMAT.md")
        for message in re.findall(r"k(\w+) = \d+", read("proto-free-wire/message_type.h")):
            self.assertIn(message, rows, "a message without its row in FORMAT.md")


if __name__ == "__main__":
    unittest.main()
