#!/usr/bin/env python3
"""Runs every test of the project and ends with the plain line "N passed, N failed".

  run_all.py --build build [--all] [--only WORD]

What there is: the GoogleTest programs in BUILD/tests, the process tests in tests/process (Python's unittest), the house
rules in tests/house, and the parity cases in tests/parity over several shapes of cluster. With --all also a build with
clang, the tests under sanitizers, clang-tidy. Needs only Python's standard library.
"""
import argparse, glob, json, os, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Tally:
    def __init__(self):
        self.passed, self.skipped, self.failures = 0, 0, []

    def report(self, group, passed, failures, seconds):
        self.passed += passed
        self.failures += [f"{group}: {f}" for f in failures]
        print(f"{'FAIL' if failures else 'ok  '} {group}: {passed} passed, {len(failures)} failed ({seconds:.1f} s)", flush=True)


def run(cmd, timeout, env=None):
    """Exit status and output; a test that hangs is killed and counts as failed."""
    p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT,
                         env={**os.environ, **(env or {})}, start_new_session=True)
    try:
        out, _ = p.communicate(timeout=timeout)
        return p.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, 9)
        out, _ = p.communicate()
        return -1, out + f"\nkilled after {timeout} s"


def tail(text, lines=30):
    return "\n".join("    " + l for l in text.strip().splitlines()[-lines:])


def googletest(tally, build, env=None):
    for program in sorted(glob.glob(os.path.join(ROOT, build, "tests", "*_test"))):
        at, name = time.time(), os.path.basename(program)
        with tempfile.NamedTemporaryFile(suffix=".json") as result:
            code, out = run([program, f"--gtest_output=json:{result.name}"], 900, env)
            try:
                suites = json.load(open(result.name))["testsuites"]
            except (ValueError, KeyError):
                suites = []
        failures, passed = [], 0
        for suite in suites:
            for case in suite["testsuite"]:
                if case.get("failures"):
                    failures.append(f"{suite['name']}.{case['name']}\n{tail(case['failures'][0]['failure'])}")
                elif case.get("result") == "SKIPPED":
                    tally.skipped += 1
                else:
                    passed += 1
        if code != 0 and not failures:
            failures.append(f"exit status {code}\n{tail(out)}")
        tally.report(name, passed, failures, time.time() - at)


def unittests(tally, build):
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "process", "*_test.py")) +
                       glob.glob(os.path.join(ROOT, "tests", "house", "*_test.py"))):
        at = time.time()
        code, out = run([sys.executable, path, "-v"], 1800, {"DTRAIN": os.path.join(ROOT, build, "dtrain")})
        # Alone on its line where the test itself has printed something.
        passed = sum(l.rstrip().endswith("... ok") or l.rstrip() == "ok" for l in out.splitlines())
        tally.skipped += sum("... skipped" in l for l in out.splitlines())
        failures = [l.split(" ")[1] for l in out.splitlines() if l.startswith(("FAIL:", "ERROR:"))]
        if code != 0 and not failures:
            failures = [f"exit status {code}"]
        if failures:
            failures[-1] += "\n" + tail(out, 60)
        tally.report(os.path.relpath(path, ROOT), passed, failures, time.time() - at)


def parity(tally, build):
    check = os.path.join(ROOT, "tests", "reference", "check.py")
    cases = sorted(glob.glob(os.path.join(ROOT, "tests", "parity", "*")))
    for shape in ([], ["--workers", "2", "--ps", "2"], ["--workers", "2"]):
        at = time.time()
        code, out = run([sys.executable, check, "--dtrain", os.path.join(ROOT, build, "dtrain"), *shape, *cases], 900)
        failures = [l[5:] for l in out.splitlines() if l.startswith("FAIL")]
        if code != 0 and not failures:
            failures = [f"exit status {code}\n{tail(out)}"]
        passed = sum(l.startswith("ok ") for l in out.splitlines())
        tally.report(f"parity with PyTorch {' '.join(shape) or 'in one process'}", passed, failures, time.time() - at)


def step(tally, group, cmd, timeout=3600):
    at = time.time()
    code, out = run(cmd, timeout)
    tally.report(group, int(code == 0), [] if code == 0 else [f"exit status {code}\n{tail(out, 60)}"], time.time() - at)
    return code == 0


def everything(tally):
    """What takes long: another compiler, sanitizers, the linter."""
    if step(tally, "clang configures", ["cmake", "-S", ".", "-B", "build-clang", "-G", "Ninja", "-DCMAKE_CXX_COMPILER=clang++",
                                        "-DCMAKE_BUILD_TYPE=Debug"]):
        step(tally, "clang builds", ["ninja", "-C", "build-clang", "--quiet"])
    for preset in ("asan", "tsan"):
        if step(tally, f"{preset} configures", ["cmake", "--preset", preset]) and \
                step(tally, f"{preset} builds", ["ninja", "-C", f"build-{preset}", "--quiet"], 5400):
            # libgomp is not instrumented: its barriers look like races, so one OpenMP thread.
            googletest(tally, f"build-{preset}", {"OMP_NUM_THREADS": "1"})
    sources = [f for pattern in ("lib/**/*.cc", "cmd/*.cc", "proto-free-wire/*.cc")
               for f in sorted(glob.glob(pattern, root_dir=ROOT, recursive=True))]
    step(tally, "clang-tidy", ["clang-tidy", "--quiet", "-p", "build-clang", *sources], 5400)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--all", action="store_true")
    p.add_argument("--only", default="", help="one of googletest, process, parity")
    args = p.parse_args()
    tally, at = Tally(), time.time()
    for name, group in (("googletest", googletest), ("process", unittests), ("parity", parity)):
        if args.only in ("", name):
            group(tally, args.build)
    if args.all:
        everything(tally)
    for failure in tally.failures:
        print(f"FAILED {failure}")
    print(f"in {time.time() - at:.0f} s")
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {len(tally.failures)} failed{skipped}")
    sys.exit(1 if tally.failures or not tally.passed else 0)


if __name__ == "__main__":
    main()
