#!/usr/bin/env python3
"""One run file, many shapes of cluster, one SHA-256 of the model: real processes over sockets."""
import shutil
import unittest

import cluster


class Identity(cluster.ProcessTest):
    def assert_same(self, shapes, *args):
        """`--servers WHERE` is for the clusters alone."""
        want = self.train(*[a for a in args if a not in ("--servers", "all")], out="one")
        for workers, ps in shapes:
            with self.subTest(workers=workers, ps=ps):
                flags = ["--workers", workers] + (["--ps", ps] if ps else [])
                self.assertEqual(self.train(*flags, *args, out=f"c{workers}-{ps}"), want)
        return want

    def test_servers_of_their_own(self):
        self.assert_same([(workers, ps) for workers in (1, 2, 3, 4) for ps in (1, 2, 3)])

    def test_servers_beside_the_workers(self):
        self.assert_same([(workers, 0) for workers in (1, 2, 3, 4)])

    def test_servers_on_all_tasks(self):
        self.assert_same([(1, 1), (2, 1), (2, 2), (3, 2)], "--servers", "all")

    def test_tensors_in_shared_memory_and_copied(self):
        # Tasks of one address refer to each other's memory, those of two addresses of this host do not.
        wide = ["--set", "train.steps=6", "--set",
                'network.layers=[{type="flatten"},{name="dense1",type="linear",units=8400,activation="relu"},'
                '{name="dense2",type="linear",units=10},{type="softmax_cross_entropy"}]']
        want = self.train(*wide, out="one")
        for name, ps_host in (("shared", "127.0.0.1"), ("copied", "127.0.0.2")):
            with self.subTest(name):
                spec, at = self.cluster(workers=2, ps=1)
                spec = spec.replace(f"ps|127.0.0.1:{at['ps', 0]}", f"ps|{ps_host}:{at['ps', 0]}")
                self.assert_all_done([self.start_task(spec, "ps", 0, *wide, out=name)] +
                                     [self.start_task(spec, "worker", i, *wide, out=name) for i in range(2)])
                self.assertEqual(self.model_hash(name), want)

    def test_more_workers_than_micro_batches(self):
        self.assert_same([(7, 1)])

    def test_two_threads(self):
        self.assert_same([(2, 1), (3, 0)], "--set", "train.threads=2")

    def test_blocks_on_all_servers(self):
        # dense1.weight has 1.2 million elements here, about five blocks.
        wide = ["--set", "train.steps=6", "--set",
                'network.layers=[{type="flatten"},{name="dense1",type="linear",units=8400,activation="relu"},'
                '{name="dense2",type="linear",units=10},{type="softmax_cross_entropy"}]']
        self.assertIn("server 2: ", self.dtrain("check", self.run_toml, "--ps", 3, *wide).out)
        want = self.assert_same([(2, 3), (3, 0)], *wide)
        self.assertIn("server 3: ", self.dtrain("check", self.run_toml, "--ps", 2, "--workers", 2, "--servers", "all", *wide).out)
        self.assertEqual(self.train("--workers", 2, "--ps", 2, "--servers", "all", *wide, out="mixed"), want)

    def test_norms_over_whole_parameters(self):
        # LAMB with clipping asks for them in two rounds, LARS in one; dense1.weight lies in several blocks.
        wide = ["--set", "train.steps=5", "--set", "train.ema=0.9", "--set",
                'network.layers=[{type="flatten"},{name="dense1",type="linear",units=8400,activation="relu"},'
                '{name="dense2",type="linear",units=10},{type="softmax_cross_entropy"}]']
        hashes = []
        for optimizer in ('{type="lamb",lr=0.01,weight_decay=0.01,clip_norm=0.5}', '{type="lamb",lr=0.01}',
                          '{type="lars",lr=1.0,trust=0.02,momentum=0.9,weight_decay=0.01,clip_norm=0.5}'):
            hashes.append(self.assert_same([(2, 3), (3, 0)], *wide, "--set", "optimizer=" + optimizer))
            averages = {self.dtrain("inspect", "--hash", self.path(out, "model-ema.safetensors")).out
                        for out in ("one", "c2-3", "c3-0")}
            self.assertEqual(len(averages), 1)
            self.assertNotIn(hashes[-1], averages.pop())
            for out in ("one", "c2-3", "c3-0"):
                shutil.rmtree(self.path(out))
        self.assertEqual(len(set(hashes)), len(hashes))

    def test_gradients_that_are_used_at_once(self):
        # One micro-batch a step: one process keeps no gradients then, and dense1.weight's come in pieces.
        wide = ["--set", "train.steps=4", "--set", "train.micro_batch=40", "--set", "train.ema=0.9", "--set",
                'network.layers=[{type="flatten"},{name="dense1",type="linear",units=2100,activation="relu"},'
                '{name="dense2",type="linear",units=10},{type="softmax_cross_entropy"}]']
        for i, optimizer in enumerate(('{type="sgd",lr=0.1,momentum=0.9}', '{type="sgd",lr=0.1,clip_norm=0.5}',
                                       '{type="lamb",lr=0.01,weight_decay=0.01,clip_norm=0.5}')):
            flags = [*wide, "--set", "optimizer=" + optimizer]
            want = self.train(*flags, out=f"one{i}")
            self.assertEqual(self.train("--workers", 2, "--ps", 1, *flags, out=f"many{i}"), want)
            averages = [self.dtrain("inspect", "--hash", self.path(out, "model-ema.safetensors")).out
                        for out in (f"one{i}", f"many{i}")]
            self.assertEqual(*averages)

    def test_frozen_and_shared_parameters_of_several_blocks(self):
        # a and c train 270,400 weights, a's for two layers and c's in pieces; the norm takes over the sum with a frozen
        # layer.
        wide = ["--set", "train.steps=3", "--set",
                'network.layers=[{type="flatten"},{name="f",type="linear",units=520,params={weight={frozen=true},'
                'bias={frozen=true}}},{name="a",type="linear",units=520,activation="tanh"},{name="n",type="batch_norm"},'
                '{name="s",type="add",inputs=["f","n"],activation="relu"},{name="b",type="linear",units=520,'
                'params.weight.share="a.weight"},{name="c",type="linear",units=520,activation="relu"},'
                '{type="linear",units=10},{type="softmax_cross_entropy"}]']
        several = self.assert_same([(2, 0), (3, 2)], *wide)
        for out in ("one", "c2-0", "c3-2"):
            shutil.rmtree(self.path(out))
        self.assertNotEqual(self.assert_same([(2, 1)], *wide, "--set", "train.micro_batch=40"), several)

    def test_augmentation_follows_the_place_in_the_run(self):
        augmented = ["--set", "data.train.transforms=[{type='random_resized_crop',size=12},{type='random_crop',size=12,pad=2},"
                     "{type='horizontal_flip'},{type='color_jitter',brightness=0.2,contrast=0.2},{type='cutout',size=3}]"]
        want = self.assert_same([(2, 2), (3, 1), (3, 0)], *augmented, "--set", "data.train.threads=3")
        self.assertEqual(self.train(*augmented, out="one-thread"), want)
        self.assertNotEqual(self.train(*augmented, "--set", "seed=12", out="other-seed"), want)
        self.assertNotEqual(self.train(out="plain"), want)

    def test_evaluation_does_not_disturb(self):
        want = self.train(out="one")
        data = [a for key in ("format=idx", "images=" + self.path("images.idx"), "labels=" + self.path("labels.idx"))
                for a in ("--set", "data.test." + key)]
        flags = [*data, "--set", "train.eval_every=7"]
        self.assertEqual(self.train(*flags, out="solo"), want)
        self.assertEqual(self.train(*flags, "--workers", 3, "--ps", 2, out="many"), want)
        solo, many = self.events("solo", "eval"), self.events("many", "eval")
        self.assertEqual([e["step"] for e in solo], [7, 14, 21, 28, 35, 40])
        self.assertEqual(solo, many, "the same loss and accuracy, to the last digit")

    def test_metrics_are_the_same_too(self):
        self.train(out="solo")
        self.train("--workers", 3, "--ps", 2, out="many")
        self.train("--workers", 4, out="beside")

        def numbers(out):
            return [{k: v for k, v in row.items() if k != "samples_per_s"} for row in self.rows(out) if "event" not in row]
        self.assertEqual(len(numbers("solo")), 8)
        self.assertEqual(numbers("solo"), numbers("many"))
        self.assertEqual(numbers("solo"), numbers("beside"))

    def test_what_belongs_to_the_run_changes_the_hash(self):
        # Without this the tests above could compare something that never changes.
        hashes = [self.train(*flags, out=f"o{i}") for i, flags in enumerate(
            [[], ["--set", "seed=12"], ["--set", "train.micro_batch=20"], ["--set", "data.train.shuffle=false"],
             ["--set", "optimizer.lr=0.0021"], ["--set", "train.steps=39"]])]
        self.assertEqual(len(set(hashes)), len(hashes))


if __name__ == "__main__":
    unittest.main()
