#!/usr/bin/env python3
"""Pictures in folders and text as tokens, in real processes: one hash whatever the cluster and the threads that read; what is
damaged ends every task with its name and the code of data."""
import os, random, struct, unittest, zlib

import cluster

DATA = 3

PICTURES = cluster.RUN.replace('format = "idx"\nimages = "images.idx"\nlabels = "labels.idx"', '''format = "images"
folder = "pictures"
transforms = [
  { type = "random_resized_crop", size = 12 },
  { type = "horizontal_flip" },
  { type = "color_normalize", mean = [0.5], std = [0.25] },
]''').replace("steps = 40", "steps = 12")

TEXT = """\
[data.train]
format = "tokens"
files = "text"
type = "uint8"
part = [0, 0.8]
[data.test]
format = "tokens"
files = "text"
type = "uint8"
part = [0.8, 1]
[train]
batch = 12
micro_batch = 4
threads = 1
steps = 10
[optimizer]
type = "adam"
lr = 0.01
[network]
input = [16]
layers = [
  { type = "embedding", vocab = 128, dim = 8 },
  { type = "linear", units = 128 },
  { type = "softmax_cross_entropy" },
]
"""


def png(width, height, grey):
    """A grey picture of one byte a pixel."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + grey[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Pictures(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        for number in range(60):
            folder = self.path("pictures", f"class{number % 10}")
            os.makedirs(folder, exist_ok=True)
            width, height = draw.randrange(8, 40), draw.randrange(8, 40)
            cluster.write(os.path.join(folder, f"{number}.png"), png(width, height, draw.randbytes(width * height)))
        self.run_toml = cluster.write(self.path("run.toml"), PICTURES)

    def test_one_hash_whatever_reads_them(self):
        want = self.train(out="one")
        self.assertEqual(self.train("--set", "data.train.threads=4", out="threads"), want)
        self.assertEqual(self.train("--workers", 3, "--set", "data.train.threads=2", out="three"), want)

    def test_one_that_does_not_decode(self):
        damaged = self.path("pictures", "class7", "7.png")
        with open(damaged, "rb") as f:
            content = f.read()
        for what, says, content in (("cut", "cannot decode", content[:-30]), ("no picture", "neither a JPEG nor a PNG", b"GIF89a"),
                                    ("huge", "claims 70000 x 70000 pixels", content[:16] + png(70000, 70000, b"")[16:])):
            with self.subTest(what):
                cluster.write(damaged, content)
                for command in (["run"], ["launch", "--workers", 2, "--ps", 1]):
                    p = self.dtrain(command[0], self.run_toml, *command[1:], "--out", self.path(what + command[0]), expect=DATA)
                    self.assertIn(os.path.join("class7", "7.png"), p.err)
                    self.assertIn(says, p.err)
                    self.assertNotIn("dtrain: bug", p.err)

    def test_another_set_of_classes_to_test(self):
        os.makedirs(self.path("others", "class1"))
        cluster.write(self.path("others", "class1", "1.png"), png(12, 12, bytes(144)))
        p = self.dtrain("check", self.run_toml, "--set", "data.test.format=images", "--set", "data.test.folder=" + self.path("others"),
                        expect=DATA)
        self.assertIn("number 0 is 'class0' in one and 'class1' in the other", p.err)


class Text(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.run_toml = cluster.write(self.path("run.toml"), TEXT)
        words = ["to", "be", "or", "not", "that", "is", "the", "question"]
        draw = random.Random(6)
        cluster.write(self.path("text"), " ".join(draw.choice(words) for _ in range(3000)))

    def test_one_hash_on_any_cluster(self):
        want = self.train(out="one")
        self.assertEqual(self.train("--workers", 2, "--ps", 1, out="two"), want)
        self.assertEqual(self.train("--workers", 3, out="three"), want)
        losses = [row["loss"] for row in self.events("one", "eval")]
        self.assertTrue(losses)

    def test_a_byte_that_the_network_does_not_know(self):
        with open(self.path("text"), "rb") as f:
            text = f.read()
        cluster.write(self.path("text"), text[:100] + b"\xc3" + text[101:])
        p = self.dtrain("run", self.run_toml, "--out", self.path("out"), expect=DATA)
        self.assertRegex(p.err, r"run\.toml:3:9: .*text': token 100 is 195, but the network knows the tokens 0 … 127")


if __name__ == "__main__":
    unittest.main()
