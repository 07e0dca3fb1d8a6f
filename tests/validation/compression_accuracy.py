#!/usr/bin/env python3
"""What compression of gradients costs in test accuracy, and what it saves in bytes.

Trains a run file once uncompressed and once with every method, each with its default keys, and prints a table: the test
accuracy, by how many points it differs from the uncompressed run, and the bytes of gradients that workers push and of
parameters that they pull, relative to fp32. Those are payloads, which the man page's sizes give: for the methods that
send a share of the values, of the steps of the run. Fails where a method that is to keep the accuracy is more than --points
below. Nothing is timed. Needs Python's standard library.

    compression_accuracy.py --dtrain build/dtrain                        2 workers, 1 parameter server
    compression_accuracy.py --dtrain build/dtrain --workers 0 --set train.micro_batch=32      one process
    compression_accuracy.py --dtrain build/dtrain --seeds 5,6,7          the mean over seeds
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

FASHION = os.path.join(os.path.dirname(__file__), "..", "..", "configs", "lenet-fashion.toml")
# Name, keys, whether it is to keep the accuracy.
SETTINGS = [
    ("fp32", [], True),
    ("fp16", ["train.compression=fp16"], True),
    ("bf16", ["train.compression=bf16"], True),
    ("2bit", ["train.compression=2bit"], True),
    ("1bit", ["train.compression=1bit"], True),
    ("topk", ["train.compression=topk"], True),
    ("dgc", ["train.compression=dgc"], True),
    ("dgc of 1 %", ['train.compression={type="dgc",ratio=0.01}'], True),
    ("2bit, pulls 2bit", ["train.compression=2bit", "train.compress_pulls=2bit"], True),
    # The papers' rules to the letter, to see what the defaults differ for.
    ("2bit of MXNet", ['train.compression={type="2bit",threshold=0.5}'], False),
    ("dgc with masking", ['train.compression={type="dgc",masking=true}'], False),
]


def sparse_share(ratio, warmup, steps):
    """Of fp32's bytes, 6 bytes instead of 4 for each value that is sent; of chunks large enough to have a share."""
    sent = [0.25 * (ratio / 0.25) ** (step / warmup) if step < warmup else ratio for step in range(steps)]
    return 1.5 * sum(sent) / steps


def pushed(keys, steps, epoch_steps):
    method = next((k.split("=", 1)[1] for k in keys if k.startswith("train.compression=")), "none")
    warmup = min(steps // 4, 4 * epoch_steps)
    if "dgc" in method:
        return sparse_share(0.01 if "0.01" in method else 0.001, warmup, steps)
    if "topk" in method:
        return sparse_share(0.01, warmup, steps)
    return {"none": 1, "fp16": 1 / 2, "bf16": 1 / 2, "1bit": 1 / 32}.get(method, 1 / 16)


def train(args, name, keys, seed, folder):
    """(test accuracy, steps, steps of an epoch); no accuracy where the run diverged."""
    out = os.path.join(folder, f"{name}-{seed}".replace(" ", "-"))
    words = [args.dtrain]
    words += ["launch", args.run, "--workers", str(args.workers), "--ps", str(args.ps)] if args.workers else ["run", args.run]
    words += ["--out", out]
    for key in [*args.set, *keys, f"seed={seed}"]:
        words += ["--set", key]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=args.timeout)
    rows = [json.loads(line) for line in open(os.path.join(out, "metrics.jsonl"))]
    steps = rows[0]["steps"]
    end = next((row for row in rows if row.get("event") == "end"), {})
    if "test_accuracy" not in end and "the loss is" not in done.stdout:
        sys.exit(f"{name}: the run failed\n{done.stdout}")
    epoch = next((row["step"] for row in rows if row.get("event") == "eval"), steps)
    return end.get("test_accuracy"), steps, epoch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default=os.path.normpath(FASHION))
    parser.add_argument("--dtrain", default="build/dtrain")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE, as for dtrain run")
    parser.add_argument("--workers", type=int, default=2, help="0: one process")
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--points", type=float, default=1.0)
    parser.add_argument("--timeout", type=float, default=1800, help="seconds after which a run counts as hung")
    parser.add_argument("--only", help="names of settings, separated by ';': " + "; ".join(s[0] for s in SETTINGS))
    args = parser.parse_args()
    names = ["fp32", *(n.strip() for n in args.only.split(";"))] if args.only else [s[0] for s in SETTINGS]
    seeds = [int(s) for s in args.seeds.split(",")]
    plain, short = None, []
    print(f"{'':18}{'accuracy':>9}{'points':>8}{'pushed':>9}{'pulled':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, keys, keeps in SETTINGS:
            if name not in names:
                continue
            runs = [train(args, name, keys, seed, folder) for seed in seeds]
            if any(accuracy is None for accuracy, _, _ in runs):
                accuracy, points = math.nan, -math.inf
            else:
                accuracy = sum(run[0] for run in runs) / len(runs)
                plain = accuracy if plain is None else plain
                points = 100 * (accuracy - plain)
            pulled = 1 / 16 if any("compress_pulls" in key for key in keys) else 1
            said = f"{accuracy:9.4f}{points:+8.2f}" if math.isfinite(points) else f"{'diverges':>17}"
            print(f"{name:18}{said}{pushed(keys, *runs[0][1:]):9.2%}{pulled:9.2%}", flush=True)
            if keeps and points < -args.points:
                short.append(name)
    if short:
        sys.exit(f"more than {args.points} points below fp32: " + ", ".join(short))


if __name__ == "__main__":
    main()
