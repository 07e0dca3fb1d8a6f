#!/usr/bin/env python3
"""dtrain launch --kubernetes: what is printed is what Kubernetes reads, and every pod's command with every pod's environment
runs, as a process on a host of its own: a network namespace that knows the names of the pods."""
import json, os, re, shutil, signal, subprocess, unittest

import cluster, namespaces

PYTHON = "/usr/bin/python3"  # which sees Debian's python3-yaml


def yaml_possible():
    if subprocess.run([PYTHON, "-c", "import yaml"], capture_output=True).returncode != 0:
        return "needs python3-yaml"
    return ""


def documents(text):
    p = subprocess.run([PYTHON, "-c", "import sys, yaml, json; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"],
                       input=text, capture_output=True, text=True, check=True)
    return json.loads(p.stdout)


class KubernetesTest(cluster.ProcessTest):
    def setUp(self):
        if yaml_possible():
            self.skipTest(yaml_possible())
        super().setUp()

    def manifests(self, *args):
        p = self.dtrain("launch", self.run_toml, "--kubernetes", "--image", "dtrain:test", *args)
        return {d["kind"]: d for d in documents(p.out)}


class Manifests(KubernetesTest):
    def test_they_say_what_kubernetes_asks_for(self):
        objects = self.manifests("--workers", 3, "--ps", 2, "--namespace", "research", "--env", "A=it's \"b\": #c",
                                 "--memory", "2Gi", "--data_claim", "photos:/data")
        self.assertEqual(list(objects), ["Secret", "ConfigMap", "Service", "StatefulSet", "Job"])
        for o in objects.values():
            self.assertEqual(o["metadata"]["namespace"], "research")
            self.assertRegex(o["metadata"]["name"], r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
        self.assertEqual(objects["Secret"]["metadata"]["name"], "small")
        self.assertRegex(objects["Secret"]["stringData"]["secret"], "^[0-9a-f]{64}$")
        job, servers, service = objects["Job"]["spec"], objects["StatefulSet"]["spec"], objects["Service"]["spec"]
        self.assertEqual((job["completions"], job["parallelism"], job["completionMode"]), (3, 3, "Indexed"))
        self.assertEqual(servers["serviceName"], objects["Service"]["metadata"]["name"])
        for template in (job["template"], servers["template"]):
            self.assertEqual(template["spec"]["subdomain"], "small")
            for key, value in service["selector"].items():
                self.assertEqual(template["metadata"]["labels"][key], value)
            [container] = template["spec"]["containers"]
            mounted = {m["name"] for m in container["volumeMounts"]}
            given = {v["name"] for v in template["spec"]["volumes"]} | {
                c["metadata"]["name"] for c in servers.get("volumeClaimTemplates", []) if template is servers["template"]}
            self.assertEqual(mounted, given)
            self.assertIn({"name": "A", "value": "it's \"b\": #c"}, container["env"])
            self.assertEqual(container["resources"]["requests"]["memory"], "2Gi")
        self.assertEqual(servers["selector"]["matchLabels"], {k: servers["template"]["metadata"]["labels"][k]
                                                              for k in servers["selector"]["matchLabels"]})
        codes = {rule["action"]: rule["onExitCodes"]["values"] for rule in job["podFailurePolicy"]["rules"]
                 if "onExitCodes" in rule}
        self.assertEqual(codes["FailJob"], [2, 3, 5, 6, 7])
        self.assertEqual(job["template"]["spec"]["restartPolicy"], "Never")
        # What includes others is one file here, with what --set changed.
        objects = self.manifests("--workers", 1, "--set", "train.batch=16")
        self.assertIn("batch = 16", objects["ConfigMap"]["data"]["run.toml"])

    def test_two_runs_have_two_secrets(self):
        self.assertNotEqual(self.manifests("--workers", 1)["Secret"]["stringData"],
                            self.manifests("--workers", 1)["Secret"]["stringData"])

    def test_what_cannot_be(self):
        for args, says in ((["--workers", 1], "--image NAME"), (["--image", "i"], "--workers N"),
                           (["--image", "i", "--workers", 1, "--hostfile", "h"], "leave out"),
                           (["--image", "i", "--workers", 1, "--data_claim", "d"], "photos:/data/photos"),
                           (["--image", "i", "--workers", 1, "--env", "=3"], "NAME=VALUE"),
                           (["--image", "i", "--workers", 1, "--namespace", "A b"], "--namespace 'A b'"),
                           (["--image", "i", "--workers", 1, "--memory", "lots"], "4Gi"),
                           (["--image", "i", "--workers", 1, "--storage", "-5Gi"], "10Gi"),
                           (["--image", "i", "--workers", 1, "--data_claim", "x:/"], "choose another path"),
                           (["--image", "i", "--workers", 1, "--data_claim", "x:/d", "--data_claim", "y:/d"], "already"),
                           (["--image", "i", "--workers", 1, "--slurm"], "--kubernetes or --slurm"),
                           (["--image", "i", "--workers", 1, "--only", "ps"], "kubectl logs"),
                           (["--image", "i", "--workers", 1, "--resume"], "--out_claim")):
            p = self.dtrain("launch", self.run_toml, "--kubernetes", *args, expect=2)
            self.assertIn(says, p.err)
            self.assertEqual(p.out, "")


class Pods(KubernetesTest):
    """Each pod in a network namespace, with the names of all pods in its /etc/hosts."""

    def setUp(self):
        super().setUp()
        if namespaces.possible():
            self.skipTest(namespaces.possible())

    def pods(self, objects):
        """(name, index, pod) of every pod that Kubernetes would make."""
        out = []
        for kind, count in (("StatefulSet", "replicas"), ("Job", "completions")):
            if kind in objects:
                o = objects[kind]
                out += [(f"{o['metadata']['name']}-{i}", i, o["spec"]["template"]) for i in range(o["spec"][count])]
        return out

    def hosts(self, names, service):
        """A namespace for each pod; names lead to addresses as the headless service would say."""
        self.net = namespaces.Network("1gbit", len(names))
        self.addCleanup(self.net.__exit__)
        self.net.__enter__()
        lines = ["127.0.0.1 localhost"] + [f"{self.net.address(i)} {n}.{service}" for i, n in enumerate(names)]
        for name in self.net.names:
            folder = f"/etc/netns/{name}"
            os.makedirs(folder)
            self.addCleanup(shutil.rmtree, folder)
            cluster.write(folder + "/hosts", "\n".join(lines) + "\n")

    def start_pod(self, objects, host, name, index, template):
        [container] = template["spec"]["containers"]
        # What a mount shows lies in a folder here; a volume of a pod's own is one of its own.
        paths = {}
        for mount in container["volumeMounts"]:
            [volume] = [v for v in template["spec"]["volumes"] if v["name"] == mount["name"]] or [{"claim": True}]
            own = self.path("pods", name, mount["name"])
            if not os.path.isdir(own):
                os.makedirs(own)
                content = objects["ConfigMap"]["data"] if "configMap" in volume else \
                    objects["Secret"]["stringData"] if "secret" in volume else {}
                for file, text in content.items():
                    os.chmod(cluster.write(os.path.join(own, file), text), 0o600)
            paths[mount["mountPath"]] = own
        fields = {"status.podIP": self.net.address(host),
                  "metadata.labels['apps.kubernetes.io/pod-index']": str(index),
                  "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index)}
        env = {e["name"]: e["value"] if "value" in e else fields[e["valueFrom"]["fieldRef"]["fieldPath"]]
               for e in container["env"]}

        def word(text):
            text = re.sub(r"\$\((\w+)\)", lambda m: env[m.group(1)], text)
            for path, own in paths.items():
                if text.startswith(path):
                    text = own + text[len(path):]
            return text
        self.assertEqual(container["command"], ["dtrain"])
        return self.start(*map(word, container["args"]), env=env, within=self.net.command(host, []))

    def run_all(self, objects):
        pods = self.pods(objects)
        self.hosts([name for name, _, _ in pods], objects["Service"]["metadata"]["name"])
        return {name: self.start_pod(objects, host, name, index, template)
                for host, (name, index, template) in enumerate(pods)}

    def objects(self, *args):
        # Data are found by their whole path, as in a claim.
        text = cluster.RUN.replace('"images.idx"', json.dumps(self.path("images.idx")))
        text = text.replace('"labels.idx"', json.dumps(self.path("labels.idx")))
        cluster.write(self.run_toml, text)
        return self.manifests(*args)

    def test_servers_and_workers(self):
        want = self.train(out="one")
        processes = self.run_all(self.objects("--workers", 2, "--ps", 2))
        for name in ("small-worker-0", "small-worker-1"):
            self.assertEqual(processes[name].wait(), 0, processes[name].err)
        # The Job is complete. Servers stay, since a StatefulSet would start them again, until they are deleted.
        processes["small-ps-0"].says("done: 40 steps")
        self.assertEqual(self.model_hash("pods", "small-ps-0", "out", "small"), want)
        for name in ("small-ps-0", "small-ps-1"):
            self.assertTrue(processes[name].running())
            processes[name].signal(signal.SIGTERM)
            self.assertEqual(processes[name].wait(), 0, processes[name].err)

    def test_workers_alone(self):
        want = self.train(out="one")
        processes = self.run_all(self.objects("--workers", 3))
        for process in processes.values():
            self.assertEqual(process.wait(), 0, process.err)
        self.assertEqual(self.model_hash("pods", "small-worker-0", "out", "small"), want)

    def test_a_pod_that_is_moved(self):
        steps = ["--set", "train.steps=3000", "--set", "train.log_every=1"]
        want = self.train(*steps, out="one")
        objects = self.objects("--workers", 2, "--ps", 1, *steps)
        processes = self.run_all(objects)
        out = os.path.join("pods", "small-ps-0", "out", "small")
        self.wait_for_step(processes["small-ps-0"], out, 5)
        processes["small-worker-1"].signal(signal.SIGKILL)
        processes["small-worker-1"].wait()
        again = self.start_pod(objects, 2, *self.pods(objects)[2])
        processes["small-ps-0"].says("done: 3000 steps")
        self.assertEqual(processes["small-worker-0"].wait(), 0)
        self.assertEqual(again.wait(), 0, again.err)
        processes["small-ps-0"].signal(signal.SIGTERM)
        self.assertEqual(processes["small-ps-0"].wait(), 0)
        self.assertEqual(self.model_hash(out), want)

    def test_a_server_that_is_moved(self):
        """All tasks end, all pods are made again, and the run goes on from the claim."""
        steps = ["--set", "train.steps=3000", "--set", "train.log_every=1", "--set", "train.checkpoint_every=10"]
        want = self.train(*steps, out="one")
        objects = self.objects("--workers", 2, "--ps", 1, *steps)
        processes = self.run_all(objects)
        out = os.path.join("pods", "small-ps-0", "out", "small")
        self.wait_for_step(processes["small-ps-0"], out, 15)
        processes["small-ps-0"].signal(signal.SIGKILL)
        for process in processes.values():
            process.wait()
        self.assertEqual(processes["small-worker-0"].wait(), 4)
        again = {name: self.start_pod(objects, host, name, index, template)
                 for host, (name, index, template) in enumerate(self.pods(objects))}
        for name in ("small-worker-0", "small-worker-1"):
            self.assertEqual(again[name].wait(), 0, again[name].err)
        again["small-ps-0"].signal(signal.SIGTERM)
        self.assertEqual(again["small-ps-0"].wait(), 0)
        self.assertEqual(self.model_hash(out), want)
        # Once more: it is done already.
        p = self.start_pod(objects, 0, *self.pods(objects)[0])
        p.says("is done already, with its 3000 steps")
        p.signal(signal.SIGTERM)
        self.assertEqual(p.wait(), 0)


if __name__ == "__main__":
    unittest.main()
