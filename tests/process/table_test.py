#!/usr/bin/env python3
"""A table with strings and missing values from the file to the answers: configs/table-people.toml is trained to a stated
accuracy, evaluated and asked; what was learnt of the training data travels in the model."""
import csv, json, os, random, shutil, stat, subprocess, unittest

import cluster

CONFIG = os.path.join(cluster.ROOT, "configs", "table-people.toml")
COLUMNS = ["id", "age", "hours", "work", "city", "income"]
WORK = ["private", "state", "own, small", 'own "inc"']
CITIES = ["Aachen", "Köln", "Ulm"]


def draw_people(path, count, seed, cities=CITIES):
    """Income is high where age, hours and the kind of work say so; one label in twenty is turned."""
    draw = random.Random(seed)
    with open(path, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f)
        out.writerow(COLUMNS)
        for i in range(count):
            age, hours = draw.randint(18, 80), draw.randint(5, 60)
            work, city = draw.choice(WORK), draw.choice(cities)
            score = (age - 45) / 15 + (hours - 35) / 10 + (1.5 if "own" in work else -1) + (0.5 if city == "Ulm" else 0)
            high = (score > 0) != (draw.random() < 0.03)
            row = [i, age, hours, work, city, ">50K" if high else "<=50K"]
            if draw.random() < 0.03:
                row[draw.choice([1, 2, 3])] = draw.choice(["", "?", "NA"])
            out.writerow(row)


class Table(cluster.ProcessTest):
    def setUp(self):
        super().setUp()
        self.run_toml = shutil.copy(CONFIG, self.path("table-people.toml"))
        draw_people(self.path("people.csv"), 2000, 1)
        draw_people(self.path("people-test.csv"), 500, 2)
        self.dtrain("run", self.run_toml, "--out", self.path("run"))
        self.model = self.path("run/model.safetensors")

    def predict(self, *args, code=0):
        done = self.dtrain("predict", self.run_toml, "--model", self.model, *args, expect=code)
        return done.out if code == 0 else done.err

    def test_who_has_read_enough_is_no_error(self):
        draw_people(self.path("many.csv"), 20000, 3)  # more answers than a pipe holds
        line = f"{cluster.DTRAIN} predict {self.run_toml} --model {self.model} --input {self.path('many.csv')}"
        seen = subprocess.run(["bash", "-c", f"set -o pipefail; {line} | head -1"], capture_output=True, text=True, timeout=60,
                              env=self.environment())
        self.assertEqual((seen.returncode, seen.stdout, seen.stderr), (0, "sample,label,probability\n", ""))
        full = subprocess.run(["bash", "-c", f"{line} > /dev/full"], capture_output=True, text=True, timeout=60,
                              env=self.environment())
        self.assertEqual((full.returncode, full.stderr), (3, "dtrain: cannot write to standard output\n"))

    def test_from_file_to_answers(self):
        done = self.dtrain("eval", self.run_toml, "--model", self.model, "--json")
        accuracy = json.loads(done.out)["accuracy"]
        self.assertGreater(accuracy, 0.9)
        # The answers are those that were counted, and the probabilities fit them.
        with open(self.path("people-test.csv"), encoding="utf-8") as f:
            truth = [row["income"] for row in csv.DictReader(f)]
        rows = list(csv.DictReader(self.predict("--all").splitlines()))
        self.assertEqual([row["sample"] for row in rows], [str(i + 1) for i in range(500)])
        self.assertAlmostEqual(sum(r["label"] == t for r, t in zip(rows, truth)) / 500, accuracy)
        for row in rows:
            chances = [float(row["<=50K"]), float(row[">50K"])]
            self.assertAlmostEqual(sum(chances), 1, 5)
            self.assertEqual(float(row["probability"]), max(chances))
            self.assertEqual(row["probability"], row[row["label"]])
        # The same as lines of JSON, in a file, and from the run's checkpoint.
        self.predict("--format", "jsonl", "--output", self.path("answers.jsonl"), "--batch", "7")
        with open(self.path("answers.jsonl")) as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual([line["label"] for line in lines], [row["label"] for row in rows])
        self.model = self.path("run")
        self.assertEqual([r["label"] for r in csv.DictReader(self.predict().splitlines())], [r["label"] for r in rows])

    def test_new_people_without_label_and_without_the_training_data(self):
        os.remove(self.path("people.csv"))
        with open(self.path("people-test.csv"), encoding="utf-8") as f:
            people = list(csv.DictReader(f))
        with open(self.path("new.csv"), "w", newline="", encoding="utf-8") as f:
            out = csv.DictWriter(f, ["work", "city", "hours", "age"], extrasaction="ignore")
            out.writeheader()
            out.writerows(people)
        self.assertEqual(self.predict("--input", self.path("new.csv")), self.predict())
        # A kind of work that nobody had is one more category; a city that nobody lived in is an error.
        cluster.write(self.path("new.csv"), "age,hours,work,city\n40,40,navy,Ulm\n")
        self.assertEqual(len(self.predict("--input", self.path("new.csv")).splitlines()), 2)
        cluster.write(self.path("new.csv"), "age,hours,work,city\n40,40,state,Ulm\n40,40,state,Bonn\n")
        self.assertIn("new.csv', line 3: column 'city': 'Bonn' is none of the 3 values",
                      self.predict("--input", self.path("new.csv"), code=3))

    def test_an_output_takes_no_place_of_what_is_no_file(self):
        pipe, folder = self.path("pipe"), self.path("folder")
        os.mkfifo(pipe)
        os.mkdir(folder)
        os.symlink(pipe, self.path("link"))
        for path in (pipe, folder, self.path("link")):
            self.assertIn("not a regular file", self.predict("--output", path, code=2))
            self.assertFalse(os.path.exists(path + ".part"))
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        self.assertTrue(os.path.islink(self.path("link")))

    def test_what_was_learnt_is_the_models(self):
        # Other training data, with other means: the model goes on with what it learnt.
        before = self.predict()
        draw_people(self.path("people.csv"), 300, 9, CITIES[:2])
        self.assertEqual(self.predict(), before)
        inspected = self.dtrain("inspect", self.model).out
        self.assertIn("dtrain.preprocessing", inspected)
        self.assertIn("<=50K", inspected)

    def test_a_cluster_learns_the_same(self):
        fixed = ["--set", "train.micro_batch=16", "--set", "train.threads=1", "--set", "train.epochs=2"]
        self.dtrain("run", self.run_toml, "--out", self.path("one"), *fixed)
        self.dtrain("launch", self.run_toml, "--workers", 2, "--ps", 1, "--out", self.path("two"), *fixed)
        with open(self.path("one/model.safetensors"), "rb") as a, open(self.path("two/model.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())


if __name__ == "__main__":
    unittest.main()
