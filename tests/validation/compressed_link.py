#!/usr/bin/env python3
"""Step times of a run over a link of a given speed, with and without compression.

Two network namespaces are joined by a veth pair that `tc tbf` shapes in both directions: parameter servers on one side,
workers on the other. Each setting is run in turn, --rounds times, and its best median of step times counts; bytes are
those that the pair has carried in each direction, per step, and the bound is the larger of them over the link's speed.
Needs root, iproute2 and Python's standard library.

    compressed_link.py --dtrain build/dtrain configs/alexnet-synthetic.toml --set train.batch=4 --mbit 1000
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SETTINGS = {
    "fp32": [],
    "push 2bit": ["train.compression=2bit"],
    "push 2bit, pull 2bit": ["train.compression=2bit", "train.compress_pulls=2bit"],
    "push 1bit, pull 1bit": ["train.compression=1bit", "train.compress_pulls=1bit"],
    "push bf16, pull bf16": ["train.compression=bf16", "train.compress_pulls=bf16"],
    "push dgc, pull topk": ["train.compression=dgc", "train.compress_pulls=topk"],
}


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Link:
    """ns 0 holds the servers, ns 1 the workers; 10.77.0.1 and 10.77.0.2."""

    def __init__(self, mbit):
        self.names = [f"dtl{os.getpid()}s", f"dtl{os.getpid()}w"]
        self.devices = [f"v{os.getpid()}s", f"v{os.getpid()}w"]
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", self.devices[0], "type", "veth", "peer", "name", self.devices[1])
        for i, (name, device) in enumerate(zip(self.names, self.devices)):
            ip("link", "set", device, "netns", name)
            self.inside(i, "ip", "addr", "add", f"10.77.0.{i + 1}/24", "dev", device)
            self.inside(i, "ip", "link", "set", device, "up")
            self.inside(i, "ip", "link", "set", "lo", "up")
            self.inside(i, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbit}mbit",
                        "burst", "256k", "latency", "50ms")

    def inside(self, i, *words):
        subprocess.run(["ip", "netns", "exec", self.names[i], *words], check=True)

    def sent(self, i):
        out = subprocess.run(["ip", "-n", self.names[i], "-s", "-j", "link", "show", self.devices[i]], check=True,
                             capture_output=True, text=True).stdout
        return json.loads(out)[0]["stats64"]["tx"]["bytes"]

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def run(link, args, overrides, folder):
    """(seconds of each step after the first few, bytes to servers, bytes to workers) of one run."""
    workers = [f"10.77.0.2:{2600 + w}" for w in range(args.workers)]
    servers = [f"10.77.0.1:{2500 + s}" for s in range(args.ps)]
    sets = [f"train.steps={args.steps}", "train.log_every=1", "train.threads=1", "train.checkpoint_every=0",
            *args.set, *overrides]
    tasks = []
    for job, side, count in (("ps", 0, args.ps), ("worker", 1, args.workers)):
        for task in range(count):
            words = ["ip", "netns", "exec", link.names[side], "nice", "-n", str(args.nice), args.dtrain, "run",
                     args.run, "--ps_hosts", ",".join(servers), "--worker_hosts", ",".join(workers),
                     "--job_name", job, "--task_id", str(task), "--out", os.path.join(folder, "out")]
            for s in sets:
                words += ["--set", s]
            log = open(os.path.join(folder, f"{job}{task}.log"), "w")
            env = dict(os.environ, OMP_WAIT_POLICY="passive")
            tasks.append(subprocess.Popen(words, stdout=log, stderr=log, env=env))
    rows = os.path.join(folder, "out", "metrics.jsonl")
    steps = {}

    def read():
        if not os.path.exists(rows):
            return
        for line in open(rows):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if "loss" in row and "step" in row and "event" not in row and row["step"] not in steps:
                steps[row["step"]] = (time.monotonic(), link.sent(1), link.sent(0))

    deadline = time.monotonic() + args.timeout
    while any(t.poll() is None for t in tasks) and time.monotonic() < deadline:
        read()
        time.sleep(0.01)
    read()
    for t in tasks:
        if t.poll() is None:
            t.kill()
    if any(t.wait() for t in tasks):
        sys.exit(f"a task did not end well; see {folder}\n" + open(os.path.join(folder, "ps0.log")).read())
    first, last = args.warmup, args.steps - 1  # the last step is followed by the snapshot
    seconds = [steps[s][0] - steps[s - 1][0] for s in range(first + 1, last + 1)]
    each = [(steps[last][i] - steps[first][i]) / (last - first) for i in (1, 2)]
    return seconds, each[0], each[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--dtrain", default="build/dtrain")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, as for dtrain run")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--only", help="names of settings, separated by ';': " + "; ".join(SETTINGS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    names = [n.strip() for n in args.only.split(";")] if args.only else list(SETTINGS)
    best = {}
    link = Link(args.mbit)
    try:
        for _ in range(args.rounds):
            for name in names:
                with tempfile.TemporaryDirectory() as folder:
                    seconds, up, down = run(link, args, SETTINGS[name], folder)
                median = statistics.median(seconds)
                if name not in best or median < best[name][0]:
                    best[name] = (median, up, down)
    finally:
        link.close()
    plain = best.get("fp32")
    for name, (median, up, down) in best.items():
        bound = max(up, down) * 8 / (args.mbit * 1e6)
        row = {"setting": name, "step_s": round(median, 4), "to_servers_mb": round(up / 1e6, 2),
               "to_workers_mb": round(down / 1e6, 2), "bound_s": round(bound, 4)}
        if plain:
            row["times_as_fast"] = round(plain[0] / median, 2)
        print(json.dumps(row) if args.json else
              f"{name:24} step {median * 1e3:8.1f} ms  bound {bound * 1e3:8.1f} ms  to servers {up / 1e6:8.2f} MB  "
              f"to workers {down / 1e6:8.2f} MB" + (f"  {plain[0] / median:5.2f} x" if plain else ""))


if __name__ == "__main__":
    main()
