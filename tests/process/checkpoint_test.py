#!/usr/bin/env python3
"""What a run leaves behind, and how it goes on from it: --out, --resume, damaged checkpoints, the model's file."""
import json, os, shutil, struct, unittest

import cluster

EVERY = ["--set", "train.checkpoint_every=10", "--set", "train.log_every=1"]
CHECKPOINT = 5  # the exit code


def read_safetensors(path):
    """name → (dtype, shape, bytes)"""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = f.read()
    header.pop("__metadata__", None)
    covered = sorted(tuple(t["data_offsets"]) for t in header.values())
    assert covered[0][0] == 0 and covered[-1][1] == len(data), "the tensors fill the file"
    assert all(a[1] == b[0] for a, b in zip(covered, covered[1:])), "without gaps"
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


class CheckpointTest(cluster.ProcessTest):
    def resume(self, *flags, out="out", expect=0):
        return self.dtrain("run", self.run_toml, *flags, "--out", self.path(out), "--resume", expect=expect)

    def forty_steps(self):
        """A finished run with checkpoints of steps 20, 30 and 40; the hash."""
        return self.train(*EVERY, out="out")

    def back_to(self, step, out="out"):
        """As if the run had been killed after this step's checkpoint."""
        for name in self.checkpoints(out):
            if name > f"step-{step:08}":
                shutil.rmtree(self.path(out, "checkpoints", name))
        os.remove(self.path(out, "model.safetensors"))

    def flip(self, *names, at):
        path = self.path(*names)
        with open(path, "r+b") as f:
            f.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1]))


class OutFolder(CheckpointTest):
    def test_with_a_run_is_refused(self):
        want = self.forty_steps()
        before = self.rows("out")
        for command in (["run"], ["launch", "--workers", "1"]):
            p = self.dtrain(*command, self.run_toml, "--out", self.path("out"), expect=2)
            self.assertIn("--resume", p.err)
            self.assertIn(self.path("out"), p.err)
        self.assertEqual(self.rows("out"), before)
        self.assertEqual(self.model_hash("out"), want)

    def test_that_is_empty_is_taken(self):
        os.makedirs(self.path("deep", "out"))
        cluster.write(self.path("deep", "out", "notes.txt"), "mine")
        self.train(out="deep/out")
        self.assertEqual(open(self.path("deep", "out", "notes.txt")).read(), "mine")

    def test_default_is_the_name_of_the_run(self):
        self.dtrain("run", self.run_toml)
        self.assertTrue(os.path.exists(self.path("runs", "small", "model.safetensors")))

    def test_resume_without_checkpoint(self):
        for out in ("nowhere", "empty"):
            os.makedirs(self.path("empty"), exist_ok=True)
            p = self.resume(out=out, expect=CHECKPOINT)
            self.assertIn("--resume", p.err)
            p = self.dtrain("launch", self.run_toml, "--workers", 2, "--ps", 1, "--out", self.path(out), "--resume",
                            expect=CHECKPOINT, deadline=60)
            self.assertIn(self.path(out), p.err)
        self.assertFalse(os.path.exists(self.path("nowhere")))

    def test_an_incomplete_checkpoint_is_none(self):
        self.forty_steps()
        for name in self.checkpoints("out"):  # killed while each was written: the manifest comes last
            os.remove(self.path("out", "checkpoints", name, "manifest.json"))
        self.resume(expect=CHECKPOINT)


class Resume(CheckpointTest):
    def test_gives_the_same_and_cuts_the_rows(self):
        want = self.forty_steps()
        undisturbed = [r for r in self.rows("out") if "event" not in r]
        self.back_to(20)
        self.assertEqual(self.steps("out")[-1], 40, "rows after the checkpoint are there")
        p = self.resume(*EVERY)
        self.assertRegex(p.err, "after step 20")
        self.assertEqual(self.model_hash("out"), want)
        rows = [r for r in self.rows("out") if "event" not in r]
        for r in rows + undisturbed:
            r.pop("samples_per_s")
        self.assertEqual(rows, undisturbed, "each step has one row, with the same numbers")
        self.assertEqual([e["step"] for e in self.events("out", "checkpoint")], [10, 20, 30, 40])

    def test_on_other_clusters(self):
        want = self.forty_steps()
        for step, shape in ((20, ["--workers", "3", "--ps", "2"]), (30, ["--workers", "2"]), (20, ["--workers", "1", "--ps", "3"])):
            with self.subTest(step=step, shape=shape):
                kept = self.path("copy")
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(self.path("out"), kept)
                self.back_to(step, "copy")
                self.dtrain("launch", self.run_toml, *shape, *EVERY, "--out", kept, "--resume")
                self.assertEqual(self.model_hash("copy"), want)

    def test_more_steps(self):
        want = self.train("--set", "train.steps=60", *EVERY, out="long")
        short = self.train("--set", "train.steps=25", *EVERY, out="out")
        self.assertNotEqual(short, want)
        self.resume("--set", "train.steps=60", *EVERY)
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.steps("out"), list(range(1, 61)))

    def test_fewer_steps_than_done(self):
        self.forty_steps()
        p = self.resume("--set", "train.steps=30", expect=2)
        self.assertIn("40", p.err)
        self.assertIn("30", p.err)

    def test_of_a_finished_run(self):
        want = self.forty_steps()
        self.resume(*EVERY)
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.steps("out"), list(range(1, 41)))

    def test_intervals_may_change(self):
        want = self.forty_steps()
        self.back_to(20)
        self.resume("--set", "train.log_every=7", "--set", "train.checkpoint_every=0")
        self.assertEqual(self.model_hash("out"), want)
        self.assertEqual(self.checkpoints("out")[-1], "step-00000040")

    def test_what_may_not_change(self):
        self.forty_steps()
        self.back_to(20)
        before = self.rows("out")
        for flag, then, now in (("optimizer.lr=0.003", "0.002", "0.003"), ("seed=12", "11", "12"), ("train.batch=80", "40", "80"),
                                ("train.micro_batch=20", "8", "20"), ("data.train.limit=100", "", "limit")):
            with self.subTest(flag):
                p = self.resume("--set", flag, expect=2)
                self.assertIn(flag.split("=")[0].split(".")[-1], p.err)
                self.assertIn(then, p.err)
                self.assertIn(now, p.err)
        self.assertEqual(self.rows("out"), before, "a refused resume changes nothing")

    def test_keeps_the_automatic_micro_batches(self):
        text = cluster.write(self.path("run.toml"), cluster.RUN.replace("micro_batch = 8\n", ""))
        want = self.train("--workers", 4, *EVERY, out="out")
        self.assertEqual(self.events("out", "begin")[0]["micro_batches"], 4)
        self.assertNotEqual(self.train(*EVERY, out="one"), want, "K is 1 there")
        self.back_to(20)
        self.resume(*EVERY)
        self.assertEqual(self.model_hash("out"), want)
        self.assertTrue(text)


class Damaged(CheckpointTest):
    def newest(self):
        return self.path("out", "checkpoints", self.checkpoints("out")[-1])

    def falls_back(self, want):
        p = self.resume(*EVERY)
        self.assertRegex(p.err, r"warning: .*step-00000030")
        self.assertRegex(p.err, "after step 20")
        self.assertEqual(self.model_hash("out"), want)

    def test_flipped_bit(self):
        want = self.forty_steps()
        for at in (-1, 9, 5000):
            with self.subTest(at=at):
                self.back_to(30)
                shard = next(n for n in sorted(os.listdir(self.newest())) if n.endswith(".safetensors"))
                self.flip(self.newest(), shard, at=at)
                self.falls_back(want)

    def test_cut_file_and_missing_file(self):
        want = self.forty_steps()
        self.back_to(30)
        shard = os.path.join(self.newest(), next(n for n in os.listdir(self.newest()) if n.endswith(".safetensors")))
        os.truncate(shard, os.path.getsize(shard) - 1)
        self.falls_back(want)
        self.back_to(30)
        os.remove(shard)
        self.falls_back(want)

    def test_manifest(self):
        want = self.forty_steps()
        for content in ("", "{", "[]", '{"step": 30}', "\0" * 100):
            with self.subTest(content):
                self.back_to(30)
                cluster.write(os.path.join(self.newest(), "manifest.json"), content)
                self.falls_back(want)

    def test_shard_of_another_step(self):
        want = self.forty_steps()
        self.back_to(30)
        shard = next(n for n in os.listdir(self.newest()) if n.endswith(".safetensors"))
        shutil.copy(self.path("out", "checkpoints", "step-00000020", shard), os.path.join(self.newest(), shard))
        self.falls_back(want)

    def test_all_of_them(self):
        self.forty_steps()
        for name in self.checkpoints("out"):
            cluster.write(self.path("out", "checkpoints", name, "manifest.json"), "{")
        self.resume(expect=CHECKPOINT)

    def test_inspect_says_where(self):
        self.forty_steps()
        newest = self.newest()
        shard = next(n for n in os.listdir(newest) if n.endswith(".safetensors"))
        self.flip(newest, shard, at=-1)
        self.assertIn(shard, self.dtrain("inspect", newest, "--hash", expect=CHECKPOINT).err)
        os.truncate(self.path("out", "model.safetensors"), 100)
        p = self.dtrain("inspect", self.path("out", "model.safetensors"), "--hash", expect=CHECKPOINT)
        self.assertIn("model.safetensors", p.err)
        self.assertIn("nowhere", self.dtrain("inspect", self.path("nowhere"), expect=CHECKPOINT).err)


class ModelFile(CheckpointTest):
    def test_names_and_shapes_are_those_of_pytorch(self):
        self.train("--workers", 2, "--ps", 3, out="out")
        tensors = read_safetensors(self.path("out", "model.safetensors"))
        self.assertEqual({name: shape for name, (_, shape, _) in tensors.items()}, {
            "conv1.weight": [6, 1, 3, 3], "norm1.weight": [6], "norm1.bias": [6], "norm1.running_mean": [6],
            "norm1.running_var": [6], "dense1.weight": [24, 150], "dense1.bias": [24], "dense2.weight": [10, 24],
            "dense2.bias": [10]})
        for name, (dtype, shape, data) in tensors.items():
            values = struct.unpack(f"<{len(data) // 4}f", data)
            self.assertEqual(dtype, "F32")
            count = 1
            for n in shape:
                count *= n
            self.assertEqual(len(values), count)
            self.assertTrue(all(v == v and abs(v) < 100 for v in values), name)
            self.assertGreater(len(set(values)), 1, name)

    def test_hash_of_checkpoint_and_model(self):
        want = self.forty_steps()
        self.assertEqual(self.model_hash("out", "checkpoints", "step-00000040"), want)
        self.assertNotEqual(self.model_hash("out", "checkpoints", "step-00000030"), want)
        out = self.dtrain("inspect", self.path("out"), "--hash").out
        self.assertRegex(out, rf"^model {want}\nstate [0-9a-f]{{64}}\n$")
        self.assertEqual(self.events("out", "end")[0]["model"], want)

    def test_state_does_not_depend_on_the_cluster(self):
        self.train(out="one")
        self.train("--workers", 3, "--ps", 2, out="many")
        hashes = [self.dtrain("inspect", self.path(out), "--hash").out for out in ("one", "many")]
        self.assertEqual(*hashes)

    def test_start_from_a_model(self):
        self.forty_steps()
        model = self.path("out", "model.safetensors")
        flags = ["--init", model, "--set", "train.steps=10"]
        one = self.train(*flags, out="one")
        self.assertEqual(self.train(*flags, "--workers", 2, "--ps", 2, out="many"), one)
        self.assertNotEqual(self.train("--set", "train.steps=10", out="fresh"), one)
        # With a rate of next to nothing only the running statistics move.
        self.train("--init", model, "--set", "optimizer.lr=1e-30", "--set", "train.steps=1", out="still")
        before, after = read_safetensors(model), read_safetensors(self.path("still", "model.safetensors"))
        self.assertEqual({n for n in before if before[n] != after[n]}, {"norm1.running_mean", "norm1.running_var"})


del CheckpointTest  # it has no test of its own

if __name__ == "__main__":
    unittest.main()
