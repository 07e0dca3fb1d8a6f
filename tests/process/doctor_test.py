#!/usr/bin/env python3
"""The doctor on this machine, with limits, ports, data and environments that are wrong."""
import json, os, socket, unittest

import cluster


class Doctor(cluster.ProcessTest):
    def findings(self, *args, expect=0, within=(), env=None):
        process = self.start("doctor", *args, "--json", env=env, within=within)
        code = process.wait()
        self.assertEqual(code, expect, process.out + process.err)
        self.assertEqual(process.out.count("\n"), 1)
        report = json.loads(process.out)
        self.assertEqual(report["can_start"], expect == 0)
        for f in report["findings"]:
            self.assertEqual(list(f), ["check", "verdict", "says", "do"])
            self.assertIn(f["verdict"], ("ok", "note", "slow", "fails"))
            self.assertTrue(f["says"])
            if f["verdict"] in ("slow", "fails"):
                self.assertTrue(f["do"], f)
        return report["findings"]

    def fails(self, *args, **kwargs):
        return [f for f in self.findings(*args, expect=2, **kwargs) if f["verdict"] == "fails"]

    def test_this_machine(self):
        checks = {f["check"] for f in self.findings()}
        self.assertLessEqual({"processor", "cores", "memory", "shared memory", "limits", "libraries", "devices", "clock",
                              "host name", "programs", "environment", "cluster", "ports"}, checks)
        text = self.dtrain("doctor").out
        for line in text.splitlines()[:-1]:
            self.assertRegex(line, r"^((ok|note|slow|fails) +|  )")
        self.assertEqual(text.splitlines()[-1], "a run can start")

    def test_libraries_say_their_versions(self):
        says = next(f["says"] for f in self.findings() if f["check"] == "libraries")
        for name in ("oneDNN", "OpenMP", "fmt", "OpenSSL", "zlib", "libpng", "turbojpeg"):
            self.assertRegex(says, name + r" \S*\d")

    def test_a_run_that_fits(self):
        found = self.findings(self.run_toml)
        self.assertIn("600 training samples", next(f["says"] for f in found if f["check"] == "run file"))
        self.assertRegex(next(f["says"] for f in found if f["check"] == "memory"), r"needs 0\.\d+ GiB")
        self.assertFalse(os.path.exists(self.path("runs")), "nothing is written")

    def test_data_that_are_missing(self):
        os.remove(self.path("labels.idx"))
        [f] = self.fails(self.run_toml)
        self.assertEqual(f["check"], "run file")
        self.assertIn("labels.idx", f["says"])

    def test_a_run_that_does_not_fit(self):
        [f] = self.fails(self.run_toml, "--set", 'network.layers=[{type="flatten"},{type="linear",units=1000000},'
                         '{type="linear",units=1000000},{type="softmax_cross_entropy"}]')
        self.assertEqual(f["check"], "memory")

    def test_few_open_files(self):
        limited = ("sh", "-c", 'ulimit -n 20; exec "$@"', "sh")
        spec, _ = self.cluster(7, 1)
        fails = self.fails("--cluster_spec", spec, within=limited)
        self.assertEqual([f["check"] for f in fails], ["limits"])
        self.assertIn("20 open files", fails[0]["says"])
        self.assertIn("ulimit -n 1024", fails[0]["do"])
        note = [f for f in self.findings(within=limited) if f["check"] == "limits"][0]
        self.assertEqual(note["verdict"], "note", "enough for a run in one process")

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            free = cluster.free_ports(1)[0]
            hosts = ["--ps_hosts", f"127.0.0.1:{free}", "--worker_hosts", f"127.0.0.1:{port}"]
            [f] = self.fails(*hosts)
            self.assertEqual(f["check"], "ports")
            self.assertIn(f"/job:worker/task:0: port {port}", f["says"])
            self.assertIn(f"process {os.getpid()}", f["says"])
            self.findings(*hosts, "--job_name", "ps", "--task_id", 0)
        self.findings(*hosts)

    def test_tf_config(self):
        [f] = self.fails(env={"TF_CONFIG": "{"})
        self.assertEqual(f["check"], "cluster")
        self.assertIn("TF_CONFIG", f["says"])
        hosts = [f"127.0.0.1:{port}" for port in cluster.free_ports(2)]
        good = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 0}})
        found = self.findings(env={"TF_CONFIG": good})
        said = [f["says"] for f in found if f["check"] == "cluster"]
        self.assertTrue(any("decided by" in s and "TF_CONFIG" in s for s in said), said)
        self.assertTrue(any("this process is /job:worker/task:0" in s for s in said), said)

    def test_a_source_that_is_not_asked(self):
        spec, _ = self.cluster(1)
        other = json.dumps({"cluster": {"worker": ["192.0.2.1:2500", "192.0.2.2:2500"]},
                            "task": {"type": "worker", "index": 1}})
        found = self.findings("--cluster_spec", spec, "--job_name", "worker", "--task_id", 0, env={"TF_CONFIG": other})
        [note] = [f for f in found if f["check"] == "cluster" and f["verdict"] == "note"]
        self.assertIn("TF_CONFIG", note["says"])
        self.assertIn("TF_CONFIG", note["do"])

    def test_a_task_that_is_not_there(self):
        spec, _ = self.cluster(1, 1)
        [f] = self.fails("--cluster_spec", spec, "--job_name", "worker", "--task_id", 3)
        self.assertEqual(f["check"], "cluster")

    def test_the_environment(self):
        found = self.findings(env={"OMP_DYNAMIC": "true", "DTRAIN_PROGRESS": "never"})
        said = {f["says"]: f["verdict"] for f in found if f["check"] == "environment"}
        self.assertEqual([v for s, v in said.items() if s.startswith("OMP_DYNAMIC=true")], ["slow"])
        self.assertEqual([v for s, v in said.items() if s.startswith("DTRAIN_PROGRESS=never")], ["note"])

    def test_flags_that_are_none(self):
        self.assertIn("did you mean '--json'", self.dtrain("doctor", "--jsno", expect=2).err)


if __name__ == "__main__":
    unittest.main()
