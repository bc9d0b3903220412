#!/usr/bin/env python3
"""The harness on the emulator: models against the CPU, all systems for one pair, an interrupted run that continues,
the loads.

  harness_test.py FOLDER_WITH_THE_PROGRAMS
"""
import contextlib
import csv
import importlib.machinery
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from evaluation import lateness, loads, models, recording, results, session, systems
import cores
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


class Cores(unittest.TestCase):
    def test_leaves_one_cpu_of_each(self):
        def kept(cpus, share):
            return cores.one_of_each(cpus, share)

        self.assertEqual(kept(range(8), lambda a, b: a // 2 == b // 2), [0, 2, 4, 6])
        self.assertEqual(kept(range(8), lambda a, b: a % 4 == b % 4), [0, 1, 2, 3])
        self.assertEqual(kept({1, 2, 3, 4}, lambda a, b: a // 2 == b // 2), [1, 2, 4])
        self.assertEqual(kept(range(4), lambda a, b: False), [0, 1, 2, 3])
        once = [True]
        self.assertEqual(kept(range(8), lambda a, b: bool(b == 3 and once and once.pop()) or a % 4 == b % 4), [0, 1, 2, 3])

    def test_what_others_disturbed_is_measured_again(self):
        def tried(*stolen):
            """undisturbed() with so much stolen in each second of one measurement."""
            seconds, before, left = [0], [0.0], list(stolen)

            def measure():
                seconds[0] += 1
                before[0] += left.pop(0)
                return seconds[0]
            return cores.undisturbed(measure, len(stolen), lambda: before[0], lambda: seconds[0])

        self.assertEqual(tried(0.01, 9, 9), (1, {"tries": 1, "disturbed": False}))
        self.assertEqual(tried(0.5, 0, 9), (2, {"tries": 2, "disturbed": False}))
        self.assertEqual(tried(0.5, 0.1, 0.03), (3, {"tries": 3, "disturbed": True}))

    def test_who_shares_a_core_gets_less_done(self):
        def shares(*counts):
            """share() with two counts alone, then two counts beside the other CPU."""
            trials, left = cores.Trials(), list(counts)
            trials.count = lambda *cpus: left.pop(0)
            return trials.share(0, 1)

        self.assertTrue(shares(90, 100, 60, 70))
        self.assertFalse(shares(90, 100, 60, 95))  # disturbed once
        self.assertFalse(shares(100, 100, 99, 100))

    def test_trials_count_on_the_cpus_asked_for(self):
        cpus = os.sched_getaffinity(0)
        with cores.Trials() as trials:
            # Other processes may have the CPU in the few milliseconds of one trial.
            for asked in ((min(cpus),), (min(cpus), max(cpus))):
                self.assertTrue(any(trials.count(*asked) > 0 for _ in range(200)))
        self.assertEqual(os.sched_getaffinity(0), cpus)


class Preparing(unittest.TestCase):
    """Compilers have all CPUs; measurements have one CPU of each core."""

    def main(self, *more, complete=True):
        """The CPUs available to the preparation, and to the measurement."""
        loader = importlib.machinery.SourceFileLoader("run", os.path.join(HERE, "..", "run"))
        run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
        loader.exec_module(run)
        seen, cpus = [], os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        facts = {"gpu": "none", "sms": 1, "cuda_driver": 13000, "device": "cuda", "models": "pytorch", "size": "real"}

        def here(answer):
            def look(*_):
                seen.append(os.sched_getaffinity(0))
                return answer
            return look
        with tempfile.TemporaryDirectory() as out, mock.patch.multiple(run, machine=lambda _: facts, draw=lambda *_: [], Run=lambda *_: types.SimpleNamespace(
                all=here(True), failures=[])), mock.patch.object(run.cores, "apart", lambda: {min(cpus)}), mock.patch.object(
                    run.prepare, "prepare", here((complete, {}))), mock.patch.object(
                        sys, "argv", ["run", "--models=pytorch", f"--out={out}", *more]), contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(run.main(), 0 if complete else 75)
            with open(os.path.join(out, "machine.json")) as file:
                self.kept = json.load(file)["cpus"]
        self.assertRegex(said.getvalue(), r"preparing the trainings took \d+\.\d s")
        return seen

    def test_cpus(self):
        cpus = os.sched_getaffinity(0)
        self.assertEqual(self.main(), [cpus, {min(cpus)}])
        self.assertEqual(self.kept, 1)
        os.sched_setaffinity(0, cpus)
        self.assertEqual(self.main("--cpus=all"), [cpus, cpus])
        self.assertEqual(self.kept, len(cpus))
        self.assertEqual(self.main("--prepare"), [cpus])
        self.assertEqual(self.main(complete=False), [cpus])


class Harness(unittest.TestCase):
    def run_it(self, folder, *more):
        command = [sys.executable, os.path.join(HERE, "..", "run"), "--device=emulator", f"--programs={PROGRAMS}",
                   f"--out={folder}", "--pairs=gpt2-graph/dlrm", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    def test_measures_and_goes_on(self):
        with tempfile.TemporaryDirectory() as above:
            folder, page = os.path.join(above, "figures"), os.path.join(above, "docs", "page.md")
            os.mkdir(os.path.dirname(page))
            with open(page, "w") as file:
                file.write("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nbehind\n")
            done = self.run_it(folder, "--repetitions=2", "--minutes=0.0001")
            self.assertEqual(done.returncode, 75, done.stderr + done.stdout)
            # The emulator takes any name for a GPU.
            done = self.run_it(folder, "--repetitions=2", "--gpus=first,second", f"--page={page}")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(page) as file:
                self.assertRegex(file.read(), r"(?s)^before\n.*begin -->\n((?!old).)*\| gpt2-graph/dlrm((?!old).)*end -->\nbehind\n$")
            with open(os.path.join(folder, "cells.csv"), newline="") as file:
                cells = {row["system"]: row for row in csv.DictReader(file)}
            expected = {name for name in systems.DEFAULT if systems.emulated(systems.BY_NAME[name])}
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

    def test_groups_and_what_is_said_of_them(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_it(folder, "--systems=log,slo-110,partition-25", "--at-once=2")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("not measured  tally-cupti: not on the emulator", done.stdout)
            with open(os.path.join(folder, "measurements.jsonl")) as file:
                rows = {row["system"]: row for row in map(json.loads, file)}
            # all systems of a group answer the same number of requests
            self.assertEqual({row["asked"] for row in rows.values()}, {4})
            self.assertNotIn("busy_us", rows["alone"])
            self.assertGreater(rows["slo-110"]["busy_us"], 0)
            with open(os.path.join(folder, "said.txt")) as file:
                said = file.read()
            for name in rows.keys() - {"tally-cupti"}:  # every process ended normally, some before others began
                self.assertRegex(said, f"gpt2-graph/dlrm {name} both: tally: ")
            with open(os.path.join(folder, "logs.jsonl")) as file:
                (logged,) = map(json.loads, file)
            self.assertGreater(logged["records_per_s"], 10)
            self.assertRegex(self.run_it(folder, "--log").stdout, r"gpt2-graph/dlrm +tally-traced +0\.30 .*\ntally-traced: P99 ")
            said = self.run_it(folder, "--frontier").stdout
            self.assertRegex(said, r"tally, fixed .* partition-25\n")
            self.assertRegex(said, r"gpt2-graph/dlrm +1\.10 slo-110 ")
            self.assertRegex(self.run_it(folder, "--record", "--seconds=0.5").stdout, r"^dlrm: \d+ launches a step")
            with open(recording.place(folder, "dlrm")) as file:
                self.assertIn("guard", {each["kind"] for each in json.load(file)["step"]})

    def test_refuses_what_is_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_it(folder, "--systems=magic").returncode, 2)


class Scripted:
    """A process that gives these answers."""

    def __init__(self, **answers):
        self.answers = answers

    def ask(self, command, *_):
        return self.answers[command]


class Bits(unittest.TestCase):
    def session(self):
        arguments = types.SimpleNamespace(device="cuda", size="real", programs="")
        arguments.models = models.Cuda(arguments)
        made = session.Session(arguments, session.Pair("bert", "graph", "dlrm"), [])
        self.addCleanup(shutil.rmtree, made.folder)
        return made

    def test_a_training_that_computes_otherwise_is_seen(self):
        checked = self.session()
        for figures in ([1, 2], [1, 2, 3], [1]):
            checked.stopped(Scripted(stop={"figures": figures}), 0, 1)
        self.assertEqual(checked.bits.figures, [1, 2, 3])
        with self.assertRaisesRegex(session.Wrong, "step 2 "):
            checked.stopped(Scripted(stop={"figures": [1, 4, 3]}), 0, 1)

    def test_a_wrong_answer_is_seen(self):
        checked = self.session()
        served = Scripted(capacity={}, serve={"wrong": 1})
        checked.parts = lambda system: (served, served)
        with self.assertRaisesRegex(session.Wrong, "1 wrong answers"):
            checked.measure(systems.BY_NAME["alone"], "poisson", 2, 100, 1, 1e6)

    def test_models_that_differ_by_process_are_seen(self):
        checked = self.session()
        checked.load(Scripted(inference={"digest": "1"}), "inference", "bert", "graph")
        later = session.Session(checked.arguments, checked.pair, [], bits=checked.bits)
        self.addCleanup(shutil.rmtree, later.folder)
        with self.assertRaises(session.Wrong):
            later.load(Scripted(inference={"digest": "2"}), "inference", "bert", "graph")


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
        def spread(arrivals):  # variance over mean of the counts in windows of 20 periods
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

    def test_fewer_requests_are_compared_with_the_same_of_alone(self):
        rows = [self.row("alone", [100.0] * 10 + [400.0] * 90), self.row("mps", [200.0] * 9 + [900.0])]
        _, mps = results.summarize(rows, 2)
        self.assertEqual((mps["p50"], mps["p99"], mps["p99_high"]), (2, 9, 9))
        self.assertEqual(mps["slo"], 0.9)  # of 800, twice alone's P99 of all
        rows[1].update(latency_us=[200.0] * 4, asked=10)  # cut off
        _, mps = results.summarize(rows, 2)
        self.assertEqual((mps["p99"], mps["cut"], mps["slo"]), (2, 6, 0.4))

    def test_disturbances(self):
        rows = [{"tries": 1, "disturbed": False}, {"tries": 2, "disturbed": False}, {"tries": 3, "disturbed": True},
                {"unavailable": "not here"}]
        self.assertEqual(cores.disturbances(rows), {"cells": 3, "again": 2, "still": 1})
        self.assertRegex(cores.disturbed(cores.disturbances(rows)), "^2 of 3 measurements .* 1 to no avail")

    def test_a_pair_that_does_not_suffer_does_not_count(self):
        def cell(pair, system, p99):
            return {"pair": pair, "system": system, "arrivals": "poisson", "load": 0.3, "p99": p99, "slo": 1}
        table = [cell("a", "low-priority", 3), cell("a", "tally-block", 1.1), cell("b", "low-priority", 1.9),
                 cell("b", "tally-block", 1.0), cell("c", "tally-block", 1.2)]
        low, tally = results.by_system(table)
        self.assertEqual((low["pairs"], low["p99_worst"]), (1, 3))
        self.assertEqual((tally["pairs"], tally["worst_pair"]), (2, "c"))
        self.assertAlmostEqual(tally["p99_mean"], 1.15)


class Lateness(unittest.TestCase):
    def row(self, system, latency, repetition=1, service=100.0, **more):
        return {"pair": "p", "system": system, "arrivals": "poisson", "load": 0.5, "repetition": repetition,
                "service_us": service, "latency_us": latency, "asked": len(latency), **more}

    def test_places(self):
        self.assertEqual(lateness.places([], []), [])
        self.assertEqual(lateness.places([1000], [9]), [0])
        # The server is busy until 100, 160, 210, 260; idle; busy until 350, and from 350 on.
        self.assertEqual(lateness.places([0, 50, 100, 150, 300, 350], [100, 110, 110, 110, 50, 50]), [0, 1, 2, 3, 0, 0])

    def test_by_place(self):
        times = {1: [0, 50, 100, 300, 310, 320, 330, 340], 2: [0, 500, 1000]}
        self.addCleanup(setattr, loads, "arrivals", loads.arrivals)
        loads.arrivals = lambda kind, count, period, seed: times[seed][:count] if (kind, period) == ("poisson", 200) else None
        # In `alone` the second request comes to an idle server.
        rows = [self.row("alone", [40, 70, 80, 20, 30, 40, 50, 60]), self.row("alone", [60] * 3, 2),
                # Requests end at 100, 160 and 170, since the third finds the second at work; then five in a row.
                self.row("mps", [100, 110, 70, 40, 60, 80, 300, 400]), self.row("mps", [70, 361], 2)]
        self.assertEqual([(row["place"], row["requests"], row["late_us"], row["very_late"]) for row in lateness.table(rows)],
                         # 10, 20, 60 and 301; 30 and 40; -10 and 40; 250 and 340: the median of an even number is the
                         # upper one
                         [("0", 4, 60, 1), ("1", 2, 40, 0), ("2", 2, 40, 0), ("3+", 2, 340, 2)])
        self.assertEqual(len(lateness.text(lateness.table(rows)).splitlines()), 6)

    def test_little_or_nothing(self):
        self.assertEqual(lateness.table([]), [])
        one = [self.row("alone", [100.0]), self.row("mps", [130.0]), self.row("green", [], unavailable="not here")]
        self.assertEqual([(row["system"], row["place"], row["late_us"]) for row in lateness.table(one)], [("mps", "0", 30)])
        self.assertEqual(lateness.table(one[1:]), [])  # no alone
        self.assertEqual(lateness.table([self.row("alone", [100.0], service=90.0), one[1]]), [])  # of another time


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main(warnings="ignore")
