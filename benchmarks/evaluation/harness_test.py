#!/usr/bin/env python3
"""The harness on the emulator: models against the CPU, all systems for one pair, taking a run up again, the loads.

  harness_test.py FOLDER_WITH_THE_PROGRAMS
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from evaluation import loads, results, systems
from two_processes import Process

EMULATOR = {"TALLY_DEVICE": "emulator", "TALLY_ARENA": "off"}


class Models(unittest.TestCase):
    def test_agree_with_the_cpu(self):
        process = Process([os.path.join(PROGRAMS, "workloads")], {**EMULATOR, "TALLY_STATS": "1",
                                                                  "TALLY_YIELD_EVERY_US": "500"})
        for inference, form, training in (("bert", "graph", "monte-carlo"), ("gpt2", "launches", "gpt2-training"),
                                          ("resnet50", "graph", "resnet50-training"), ("bert", "launches", "dlrm")):
            nodes = process.ask("inference", inference, "small", form)["nodes"]
            self.assertGreater(nodes, 10)
            process.ask("training", training, "small")
            for part, found in process.ask("check").items():
                self.assertTrue(found["right"], f"{part} of {inference}, {training}: {found}")
        self.assertRegex(process.end(), r"[1-9]\d* through variants.* [1-9]\d* yields")


class Harness(unittest.TestCase):
    def run_it(self, folder, *more):
        command = [sys.executable, os.path.join(HERE, "..", "run"), "--device=emulator", f"--programs={PROGRAMS}",
                   f"--out={folder}", "--pairs=gpt2-graph/dlrm", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    def test_measures_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_it(folder, "--repetitions=2", "--minutes=0.0001")
            self.assertEqual(done.returncode, 75, done.stderr + done.stdout)
            done = self.run_it(folder, "--repetitions=2")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "cells.csv"), newline="") as file:
                cells = {row["system"]: row for row in csv.DictReader(file)}
            expected = {name for name, system in systems.BY_NAME.items() if systems.emulated(system)}
            self.assertEqual(set(cells), expected)
            self.assertEqual(float(cells["alone"]["p99"]), 1)
            for name, row in cells.items():
                self.assertEqual(int(row["repetitions"]), 2)
                self.assertGreater(float(row["p50_us"]), 0)
                self.assertEqual(row["best_effort"] != "", systems.BY_NAME[name].trains)
            with open(os.path.join(folder, "cells.json")) as file:
                self.assertEqual(json.load(file)["machine"]["device"], "emulator")
            self.assertIn("not measured  mps: not on the emulator", done.stdout)
            # Nothing is left to do.
            before = os.path.getsize(os.path.join(folder, "measurements.jsonl"))
            self.assertEqual(self.run_it(folder, "--repetitions=2").returncode, 0)
            self.assertEqual(os.path.getsize(os.path.join(folder, "measurements.jsonl")), before)

    def test_refuses_what_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_it(folder, "--systems=magic").returncode, 2)


class Loads(unittest.TestCase):
    def mean_gap(self, arrivals):
        self.assertEqual(arrivals, sorted(arrivals))
        return (arrivals[-1] - arrivals[0]) / (len(arrivals) - 1)

    def test_rates(self):
        for kind in ("poisson", "bursty", os.path.join(HERE, "trace.csv")):
            found = loads.arrivals(kind, 20000, 500, 1)
            self.assertEqual(len(found), 20000)
            self.assertAlmostEqual(self.mean_gap(found) / 500, 1, delta=0.1, msg=kind)

    def test_bursts(self):
        def spread(arrivals):  # of the counts in windows of 20 periods: variance over mean
            counts = [0] * (int(arrivals[-1] // 10000) + 1)
            for each in arrivals:
                counts[int(each // 10000)] += 1
            mean = sum(counts) / len(counts)
            return sum((each - mean) ** 2 for each in counts) / len(counts) / mean
        self.assertLess(spread(loads.poisson(20000, 500, 1)), 1.5)
        self.assertGreater(spread(loads.bursty(20000, 500, 1)), 4)

    def test_bad_traces(self):
        for text in ("time\n1\n2\n", "arrival_us\n1\n", "arrival_us\n2\n1\n", "arrival_us\n3\n3\n"):
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write(text)
                file.flush()
                with self.assertRaises(ValueError, msg=text):
                    loads.read_trace(file.name)


class Summary(unittest.TestCase):
    def row(self, system, latency, repetition=1, **more):
        return {"pair": "p", "system": system, "arrivals": "poisson", "load": 0.3, "repetition": repetition,
                "latency_us": latency, "asked": len(latency), "active": 0.25, "seconds": 1, "span_s": 1, **more}

    def test_ratios(self):
        rows = [self.row("alone", [100.0] * 100), self.row("alone", [100.0] * 100, 2),
                self.row("mps", [200.0] * 50 + [300.0] * 50, steps_per_s=6, alone_steps_per_s=10),
                self.row("mps", [100.0] * 50 + [400.0] * 50, 2, steps_per_s=9, alone_steps_per_s=10)]
        alone, mps = results.summarize(rows, 2.5)
        self.assertEqual((alone["p99"], alone["slo"]), (1, 1))
        self.assertEqual((mps["p99"], mps["p99_low"], mps["p99_high"]), (4, 3, 4))
        self.assertEqual(mps["slo"], 0.5)
        self.assertAlmostEqual(mps["best_effort"], 0.75)
        self.assertAlmostEqual(mps["best_effort_of_rest"], 1)
        self.assertAlmostEqual(mps["system_sum"], 1.75)
        self.assertIsNone(mps["p999_us"])


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main(warnings="ignore")
