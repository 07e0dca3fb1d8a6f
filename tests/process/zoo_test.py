#!/usr/bin/env python3
"""The networks and run files in configs/: each says how many parameters it has, can be run, and the small ones do."""
import glob, os, re, unittest

import cluster

CONFIGS = os.path.join(cluster.ROOT, "configs")

# As published: torchvision's documentation of its models (googlenet and inception_v3 without the auxiliary classifiers), the
# GPT-2 of Hugging Face; the others are counted by hand. Layers' running statistics are no parameters.
PARAMETERS = {
    "alexnet": 61_100_840,
    "char_lstm": 256 * 64 + 4 * 256 * (64 + 256 + 2) + 4 * 256 * (256 + 256 + 2) + 257 * 256,
    "dlrm": 14 * 64 + 65 * 16 + 53 * 64 + 65,  # beside the sparse tables
    "googlenet": 6_624_904,
    "gpt": 256 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128,
    "gpt2": 124_439_808,
    "inception_v3": 23_834_568,
    "lenet": 20 * 26 + 50 * 501 + 500 * 801 + 10 * 501,
    "mlp": 512 * 785 + 256 * 513 + 10 * 257,
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "resnet20": 272_474,
    "resnet50": 25_557_032,
    "resnet56": 855_770,
    "vgg16": 138_357_544,
    "wide_and_deep": 102 * (2 + 8) + 7 * 2 + 71 * 100 + 101 * 50 + 50 * 2,
    "wide_and_deep_sparse": 5 + 37 * 64 + 65 * 32 + 32,
    "word2vec": 0,
}
# The data of those that take neither pictures nor tokens.
DATA = {
    "dlrm": 'format = "clicks"\nnumbers = 13\ncategories = [10000000, 1000000, 100000, 10000, 1000, 100, 20, 3]',
    "wide_and_deep_sparse": 'format = "clicks"\nnumbers = 4\ncategories = [1000000, 50000, 2000, 50]',
    "word2vec": 'format = "skipgram"\nfiles = "words.txt"',
}
TOKENS = {"char_lstm": 256, "gpt": 256, "gpt2": 50257}  # the networks that read tokens, and how many there are
SMALL = ("char_lstm", "dlrm", "gpt", "lenet", "mlp", "resnet20", "wide_and_deep_sparse", "word2vec")


def text_of(path):
    with open(path) as f:
        return f.read()


def networks():
    return {os.path.basename(f)[:-5]: f for f in sorted(glob.glob(os.path.join(CONFIGS, "networks", "*.toml")))}


class Zoo(cluster.ProcessTest):
    def run_file(self, network):
        data = f"vocab = {TOKENS[network]}" if network in TOKENS else "classes = 2"
        data = f'format = "synthetic"\nsamples = 8\n{data}'
        if network in DATA:
            data = DATA[network] + ("\nsamples = 8" if "clicks" in DATA[network] else "")
            cluster.write(self.path("words.txt"), "the word that stands near the word")
        return cluster.write(self.path(f"{network}.toml"), f"""\
include = ["{networks()[network]}"]
[data.train]
{data}
[train]
batch = 2
steps = 1
[optimizer]
lr = 0.01
""")

    def test_parameters_are_as_published(self):
        self.assertEqual(set(networks()), set(PARAMETERS))
        for name, path in networks().items():
            with self.subTest(name):
                comment = re.search(r"([\d,]+) parameters", text_of(path).replace("\n# ", " "))
                self.assertIsNotNone(comment, "its comment says how many parameters it has")
                self.assertEqual(int(comment.group(1).replace(",", "")), PARAMETERS[name])
                said = self.dtrain("check", self.run_file(name)).out
                self.assertIn(f"\n{PARAMETERS[name]} trainable parameters", said)

    def test_run_files_can_start(self):
        for path in sorted(glob.glob(os.path.join(CONFIGS, "*.toml"))):
            name = os.path.basename(path)
            if name.startswith("cluster-"):
                continue
            with self.subTest(name):
                self.dtrain("check", path, "--dump_config")
                files = re.findall(r'"(/usr/share/[^"]+)"', text_of(path))
                made_up = re.search('format = "(synthetic|clicks)"', text_of(path))
                if made_up or files and all(os.path.exists(f) for f in files):
                    self.dtrain("check", path)

    def test_the_small_ones_make_a_step(self):
        for name in SMALL:
            with self.subTest(name):
                self.dtrain("run", self.run_file(name), "--out", self.path(f"out-{name}"), "--set", "train.threads=1")
                self.assertTrue(os.path.exists(self.path(f"out-{name}/model.safetensors")))


if __name__ == "__main__":
    unittest.main()
