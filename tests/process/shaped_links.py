#!/usr/bin/env python3
"""Is dtrain simulate right? Real runs, every task on a host of its own behind a link that is shaped in both directions (network
namespaces; as root), take as long as it says: a small network within a tenth, AlexNet over 1 Gbit/s within 15 %, printed
beside its bytes by the link's bandwidth. No test of the suite, since it measures times: wants a machine that is idle.

    DTRAIN=build/dtrain python3 tests/process/shaped_links.py [ShapedLinks.test_alexnet_over_a_gigabit]
"""
import json, os, statistics, sys, time, unittest

from cluster import ProcessTest, until, write
from namespaces import Network, possible
from scale_test import MLP

PORT = 2500


@unittest.skipIf(possible(), possible())
class ShapedLinks(ProcessTest):
    """Real processes, each on a host of its own, beside the simulation of the same."""

    def real_step(self, run, rate, workers, ps, batch, steps):
        """Milliseconds of a step, the median of all but the first three."""
        with Network(rate, workers + ps) as net:
            jobs = [("ps", i) for i in range(ps)] + [("worker", i) for i in range(workers)]
            address = {job: f"{net.address(i)}:{PORT}" for i, job in enumerate(jobs)}
            flags = ["--worker_hosts", ",".join(address["worker", i] for i in range(workers))]
            if ps:
                flags += ["--ps_hosts", ",".join(address["ps", i] for i in range(ps))]
            tasks = []
            for i, (job, index) in enumerate(jobs):
                words = ["run", run, *flags, "--job_name", job, "--task_id", index, "--out", self.path("out"), "--set",
                         f"train.batch={batch * workers}", "--set", f"train.micro_batch={batch}", "--set", f"train.steps={steps}",
                         "--set", "train.log_every=1"]
                tasks.append(self.start(*words, within=net.command(i, [])))
            seen = self.watch_steps(tasks)
            self.assert_all_done(tasks)
        os.rename(self.path("out"), self.path(f"out-{len(os.listdir(self.dir))}"))
        seen = seen[2:]  # the first steps find caches and windows cold
        return statistics.median((b[1] - a[1]) / (b[0] - a[0]) * 1e3 for a, b in zip(seen, seen[1:]))

    def watch_steps(self, tasks):
        """When each step was first seen to be complete; a line of metrics.jsonl has no time of its own."""
        seen = []

        def look():
            steps = self.steps("out")
            if steps and (not seen or seen[-1][0] != steps[-1]):
                seen.append((steps[-1], time.monotonic()))
            return not any(task.running() for task in tasks)
        until(look, lambda: f"the end of the run; it is at {seen}")
        return seen

    def simulated_step(self, run, rate, workers, ps, batch):
        out = json.loads(self.dtrain("simulate", run, "--json", "--workers", workers, "--ps", ps, "--bandwidth", rate,
                                     "--latency", "100us", "--shared_cores", os.cpu_count(), "--set", f"train.batch={batch}",
                                     "--set", f"train.micro_batch={batch}").out)
        return out["sizes"][0]["step_ms"], out["parameter_mb"]

    def compare(self, run, rate, tc_rate, workers, ps, batch, steps, within):
        simulated, megabytes = self.simulated_step(run, rate, workers, ps, batch)
        real = self.real_step(run, tc_rate, workers, ps, batch, steps)
        print(f"{rate}, {workers} workers, {ps or 'no'} ps: {real:.1f} ms measured, {simulated:.1f} ms simulated "
              f"({100 * (simulated / real - 1):+.1f} %)", file=sys.stderr)
        self.assertLess(abs(simulated / real - 1), within)
        return real, megabytes

    def test_shaped_links(self):
        run = write(self.path("wide.toml"), MLP.replace("1024", "2048"))
        for workers, ps in ((1, 1), (2, 1), (2, 2), (2, 0), (4, 0)):
            with self.subTest(workers=workers, ps=ps):
                self.compare(run, "500Mbps", "500mbit", workers, ps, 16, 8, 0.1)

    def test_alexnet_over_a_gigabit(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        run = os.path.join(root, "configs", "alexnet-synthetic.toml")
        real, megabytes = self.compare(run, "1Gbps", "1gbit", 1, 1, 4, 10, 0.15)
        bound = megabytes / 125 * 1e3
        print(f"bytes by bandwidth: {bound:.1f} ms; measured {real / bound:.2f} times as long", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
