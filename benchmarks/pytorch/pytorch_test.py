#!/usr/bin/env python3
"""The harness with PyTorch's models, without PyTorch: a stand-in answers as program.py does. Tests without a
process: loads in an open loop, the expectation from kernels, ratios and their intervals.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), HERE]
from evaluation import expected, models, session, systems
from two_processes import Ended, Process
import alone
import protocol
import start as beginning

STAND_IN = os.path.join(HERE, "stand_in")
RUN, ALONE = os.path.join(HERE, "..", "run"), os.path.join(HERE, "alone.py")
PAIRS = "--pairs=bert-graph/gpt2-eager,llama-launches/gpt2-eager"


def start(program, out, *more, **environment):
    command = [sys.executable, program, "--device=cpu", f"--programs={STAND_IN}", f"--launcher={STAND_IN}/tally", f"--out={out}", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment})


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Harness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "figures")

    def run_it(self, *more, **environment):
        return start(RUN, self.out, "--models=pytorch", PAIRS, *more, **environment)

    def test_measures_and_goes_on(self):
        done = self.run_it("--repetitions=2", "--minutes=0.0001")
        self.assertEqual(done.returncode, 75, done.stderr + done.stdout)
        page = os.path.join(os.path.dirname(self.out), "docs", "page.md")
        os.mkdir(os.path.dirname(page))
        with open(page, "w") as file:
            file.write("<!-- figures: begin -->\n<!-- figures: end -->\n")
        done = self.run_it("--repetitions=2", f"--page={page}")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("right  every answer", done.stdout)
        self.assertIn("not measured  mps: not on the cpu", done.stdout)
        self.assertRegex(read(page), r"\| pair \| time-slicing \| tally-time-slicing \|\n.*\n\| bert-graph/gpt2-eager \| \d")
        with open(os.path.join(self.out, "cells.csv"), newline="") as file:
            cells = list(csv.DictReader(file))
        self.assertEqual({(row["pair"], row["system"]) for row in cells},
                         {(pair, system) for pair in ("bert-graph/gpt2-eager", "llama-launches/gpt2-eager")
                          for system in ("alone", "time-slicing", "tally-time-slicing")})
        for row in cells:
            self.assertEqual(int(row["repetitions"]), 2)
            self.assertEqual(row["best_effort"] != "", row["system"] != "alone")
        said = read(self.out, "said.txt")
        self.assertRegex(said, r"tally-time-slicing trainer: called: run --best-effort\n.*best-effort")
        self.assertRegex(said, r"tally-time-slicing server: called: run --\n")
        self.assertEqual(said.count("called: run --best-effort"), 2)  # one start for both pairs of a repetition
        before = read(self.out, "measurements.jsonl")
        self.assertEqual(self.run_it("--repetitions=2").returncode, 0)
        self.assertEqual(read(self.out, "measurements.jsonl"), before)
        said = self.run_it("--expected").stdout
        # A request waits about 450 us for a kernel of 900 us, and 10 ms for requests before it.
        self.assertRegex(said, r"bert-graph/gpt2-eager +tally-time-slicing +0.30 +\d\.\d+ +\d+\.\d+ .*900 us long_kernel")

    def test_only_prepares(self):
        done = self.run_it("--prepare", STAND_IN_DRIFTS="gpt2-eager")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^preparing the trainings took \d+\.\d s, on all CPUs\ncaches filled\n$")
        self.assertFalse(json.loads(read(self.out, "cache", "prepared.json"))["gpt2-eager"]["repeats"])
        self.assertFalse(os.path.exists(os.path.join(self.out, "measurements.jsonl")))
        done = self.run_it(STAND_IN_DRIFTS="gpt2-eager")
        self.assertIn("gpt2-eager does not repeat its bits: its first losses are compared to within 2%", done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)

    def failed(self, **environment):
        """The systems and pairs that the harness did not measure because of an error."""
        done = self.run_it(**environment)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("right ", done.stdout)
        rows = [json.loads(line) for line in read(self.out, "measurements.jsonl").splitlines()]
        self.assertTrue(all(row["latency_us"] for row in rows if row["system"] == "alone"))
        return done.stdout, {(row["pair"], row["system"]) for row in rows if "failed" in row}

    def test_a_wrong_training_is_named(self):
        said, cells = self.failed(STAND_IN_WRONG="gpt2-eager")
        self.assertEqual(cells, {(pair, "tally-time-slicing") for pair in ("bert-graph/gpt2-eager", "llama-launches/gpt2-eager")})
        self.assertIn("FAILED  bert-graph/gpt2-eager tally-time-slicing repetition 1: gpt2-eager: step 1 computes other bits", said)

    def test_a_wrong_answer_is_named(self):
        said, cells = self.failed(STAND_IN_WRONG="llama")
        self.assertEqual(cells, {("llama-launches/gpt2-eager", "tally-time-slicing")})
        self.assertRegex(said, r"FAILED  llama-launches/gpt2-eager tally-time-slicing repetition 1: llama under .* wrong answers")

    def test_a_process_that_ends_is_named(self):
        said, cells = self.failed(STAND_IN_CRASH="llama")
        self.assertEqual(cells, {("llama-launches/gpt2-eager", "tally-time-slicing")})
        self.assertIn("crashed as asked", said)

    def test_a_model_that_does_not_run_is_named_and_others_are_measured(self):
        for broken, left in (("llama", 7), ("gpt2-eager", 0)):
            with self.subTest(broken), tempfile.TemporaryDirectory() as self.out:
                done = self.run_it(STAND_IN_BROKEN=broken)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("FAILED  llama-launches/gpt2-eager alone, repetition 1: ", done.stdout)
                path = os.path.join(self.out, "measurements.jsonl")
                self.assertEqual(len(read(path).splitlines()) if os.path.exists(path) else 0, left)

    def test_refuses_what_is_not_there(self):
        for wrong in ("--device=emulator", "--systems=tally-block", "--pairs=bert-graph/monte-carlo"):
            self.assertEqual(self.run_it(wrong).returncode, 2, wrong)

    def test_a_process_that_does_not_answer_is_killed(self):
        process = Process(["sleep", "60"], {}, patience=0.2)
        began = time.monotonic()
        with self.assertRaises(Ended):
            process.ask("facts")
        self.assertLess(time.monotonic() - began, 30)

    def test_an_interrupt_is_no_failure_of_a_cell(self):
        process = Process(["sh", "-c", "read line; kill -INT $$"], {})
        with self.assertRaises(KeyboardInterrupt):
            process.ask("facts")


class Commands(unittest.TestCase):
    def of(self, **more):
        return models.PyTorch(types.SimpleNamespace(**{"programs": None, "device": "cuda", "launcher": "tally", "cache": None, "out": "results", **more}))

    def test_of_processes(self):
        of, ends = self.of(), ["program.py", "--device=cuda"]
        for name, server, trainer in (("time-slicing", [], []), ("mps-priorities", [], []), ("tally-mps", ["tally", "run", "--"], ["tally", "run", "--best-effort", "--"])):
            for role, before in ((of.systems[name].server, server), (of.systems[name].trainer, trainer)):
                command = of.command(role)
                self.assertEqual(command[:len(before)], before)
                self.assertEqual([os.path.basename(command[-2]), command[-1]], ends)
        self.assertIn(("CUDA_MPS_CLIENT_PRIORITY", "1"), of.systems["mps-priorities"].trainer.environment)

    def test_twelve_pairs_of_each_form(self):
        for form in ("compiled", "eager"):
            pairs = models.PyTorch.groups[form]
            self.assertEqual(len(set(pairs)), 12)
            for model in models.PyTorch.inference:
                self.assertEqual(sum(pair.startswith(model) for pair in pairs), 3)
            self.assertTrue(all(pair.split("/")[1] in models.PyTorch.training for pair in pairs))
        self.assertEqual(set(systems.PYTORCH), {"alone", "alone-flushed", "alone-mps", "time-slicing", "mps", "mps-priorities", "tally-time-slicing", "tally-mps"})


class Protocol(unittest.TestCase):
    def test_an_open_loop(self):
        now = [0]  # microseconds; a reading of the clock takes one

        class Clock:
            @staticmethod
            def monotonic_ns():
                now[0] += 1
                return now[0] * 1000

        class Request:
            cycle, answers = 2, iter(b"ababx")

            def enqueue(self):
                now[0] += 20000

            def finish(self):
                return bytes([next(self.answers)])
        self.addCleanup(setattr, protocol, "time", time)
        protocol.time = Clock
        found = protocol.Server(Request()).serve(45000, False, [1000, 2000, 30000, 60000])
        # The second waits for the first, the third for the second, and the fourth would begin after the limit.
        for took, expects in zip(found["latency_us"], (20000, 39000, 31000), strict=True):
            self.assertAlmostEqual(took, expects, delta=10)
        self.assertEqual(found["wrong"], 1)
        self.assertGreater(found["active"], 0.99)

    def test_rates_are_of_an_interval(self):
        trainer = protocol.Trainer(None)
        trainer.ends, trainer.figures, trainer.thread = [1e9, 2e9, 4e9], [1.0, 2.0, 0.5], types.SimpleNamespace(join=lambda: None)
        found = trainer.stop(1.5e9, 3e9)
        self.assertAlmostEqual(found["steps_per_s"], (2.5 - 1.5) / 1.5)
        self.assertEqual([session.as_float(each) for each in found["figures"]], [1.0, 2.0, 0.5])

    def test_figures_within_a_tolerance(self):
        exact, loose = session.Bits(), session.Bits(0.01)
        for bits in (exact, loose):
            self.assertIsNone(bits.differ([protocol.bits(each) for each in (1.0, 2.0)]))
        again = [protocol.bits(each) for each in (1.0, 2.015, 3.0)]
        self.assertEqual((exact.differ(again), loose.differ(again)), ("step 2 computes other bits than before", None))
        self.assertEqual(loose.differ([protocol.bits(float("nan"))]), "step 1 computes nan, and before 1")

    def test_figures_within_a_tolerance_are_those_of_the_first_steps(self):
        loose, first = session.Bits(0.01), [protocol.bits(1.0)] * session.Bits.FIRST
        self.assertIsNone(loose.differ([*first, protocol.bits(5.0)]))
        self.assertIsNone(loose.differ([*first, protocol.bits(6.0)]))
        self.assertIsNotNone(loose.differ([*first[1:], protocol.bits(6.0)]))


class Expected(unittest.TestCase):
    def test_what_is_sent_together(self):
        self.assertEqual(expected.batches([["a", 0, 5], ["b", 6, 10], ["c", 17, 100], ["triton_d", 120, 300]]),
                         [(0, 16, 15), (17, 117, 100), (120, 420, 20)])

    def test_waits(self):
        waits = expected.Waits([["a", 10, 50], ["triton_b", 100, 100]])
        self.assertEqual([waits.at(each) for each in (0, 10, 50, 60, 80, 100, 190, 300)], [0, 50, 10, 0, 0, 20, 10, 0])
        self.assertEqual(expected.Waits([]).at(5), 0)

    def test_services_and_latencies(self):
        arrivals, latency = [0, 50, 500], [100, 150, 100]
        self.assertEqual(expected.services(arrivals, latency), [100, 100, 100])

        class Always:
            def draw(self, _):
                return 30
        self.assertEqual(expected.beside(arrivals, [100, 100, 100], Always(), None), [130, 180, 130])

    def test_longest(self):
        self.assertEqual(expected.longest([["a", 0, 5], ["triton_b", 6, 50], ["c", 60, 7]]), ("c", 7))


class Start(unittest.TestCase):
    def test_more_than_plain_is_of_one_repetition(self):
        def row(plain, tally, best_effort):
            return {column: {"seconds": seconds, "memory": 100 * seconds}
                    for column, seconds in zip(beginning.COLUMNS, (plain, tally, best_effort), strict=True)}
        said = beginning.text([row(1, 1.5, 3), row(4, 4.5, 7), row(2, 2.5, 4.5)])
        self.assertIn("| tally | 2.50 | 0.50 | 250 | 50 |  |", said)
        self.assertIn("| tally, best effort | 4.50 | 2.50 | 450 | 250 | missed: seconds, memory |", said)


class Alone(unittest.TestCase):
    def test_intervals(self):
        middle, half = alone.interval([1.0, 1.1, 0.9])
        self.assertAlmostEqual(middle, 1)
        self.assertAlmostEqual(half, 4.303 * 0.1 / 3 ** 0.5)
        self.assertAlmostEqual(alone.interval([0, 1] * 8)[1], 2.131 * 0.5164 / 4, places=3)  # of 15 degrees of freedom
        self.assertEqual(alone.interval([2.0]), (2.0, float("inf")))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one CPU")
    def test_threads_that_launch_are_on_the_same_two_cpus(self):
        program = """
import ctypes, threading, time
def named(name):
    ctypes.CDLL(None).prctl(15, name)
    started.wait()
    time.sleep(60)
started = threading.Barrier(3)
for name in (b"pt_autograd_0", b"other"):
    threading.Thread(target=named, args=(name,), daemon=True).start()
started.wait()
print("ready", flush=True)
time.sleep(60)
"""
        cpus = os.sched_getaffinity(0)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
            try:
                self.assertEqual(process.stdout.readline(), "ready\n")
                alone.settle(process.pid, cpus)
                found = {}
                for thread in os.listdir(f"/proc/{process.pid}/task"):
                    with open(f"/proc/{process.pid}/task/{thread}/comm") as file:
                        found[file.read().strip()] = os.sched_getaffinity(int(thread))
            finally:
                process.kill()
        first = next(found[name] for name in found if name.startswith("python"))
        self.assertEqual((len(first), len(found["pt_autograd_0"]), found["other"]), (1, 1, cpus))
        self.assertNotEqual(first, found["pt_autograd_0"])

    def test_ratios_are_of_one_repetition(self):
        rows = {(name, column, repetition): {"kind": "training", "name": name, "column": column, "repetition": repetition, "steps_per_s": rate, "start": 0}
                for name, column, repetition, rate in (("a", "plain", 1, 10), ("a", "tally", 1, 9), ("a", "plain", 2, 20), ("a", "tally", 2, 19), ("a", "tally", 3, 1))}
        self.assertEqual(alone.ratios(rows), {("training", "a", "tally", "steps"): {0: [0.9, 0.95]}})
        rows["a", "tally", 2]["failed"] = "wrong"
        self.assertEqual(alone.ratios(rows), {("training", "a", "tally", "steps"): {0: [0.9]}})
        self.assertRegex(alone.text(rows), r"\| a \| tally \| steps a second \| 0.900 \| one start \| 1, 1 \| at least 0.98 \| missed \|")

    def test_an_interval_is_of_the_starts(self):
        rows = {("a", column, repetition): {"kind": "training", "name": "a", "column": column, "repetition": repetition, "steps_per_s": rate,
                                            "start": (repetition - 1) // 2}
                for column, rates in (("plain", [10] * 6), ("tally", [8, 10, 9, 11, 10, 12])) for repetition, rate in enumerate(rates, 1)}
        # Means of the starts: 0.9, 1.0, 1.1.
        self.assertIn("| 1.000 | 0.752 to 1.248 | 3, 6 |", alone.text(rows))

    def test_measures_and_goes_on(self):
        with tempfile.TemporaryDirectory() as out:
            more = ["--trainings=gpt2-eager", "--inference=bert-graph,llama-launches", "--repetitions=2"]
            done = start(ALONE, out, *more, "--minutes=0.0001")
            self.assertEqual(done.returncode, 75, done.stderr)
            done = start(ALONE, out, *more)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            for program, under, figure in (("gpt2-eager", "tally", "steps a second"), ("gpt2-eager", "tally-beside-idle", "steps a second"),
                                           ("bert-graph", "tally", "P50"), ("llama-launches", "tally", "P99")):
                self.assertRegex(done.stdout, rf"\| {program} \| {under} \| {figure} \| \d+\.\d+ \| .* to .* \| 2, 2 \|")
            self.assertEqual(len(read(out, "alone.jsonl").splitlines()), 2 * (3 + 2 * 2))
            self.assertIn("called: run --best-effort", read(out, "said.txt"))

    def test_a_second_plain_process_has_no_target(self):
        with tempfile.TemporaryDirectory() as out:
            done = start(ALONE, out, "--trainings=gpt2-eager", "--inference=bert-graph", "--repetitions=2", "--control")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            for program, figure in (("gpt2-eager", "steps a second"), ("bert-graph", "P99")):
                self.assertRegex(done.stdout, rf"\| {program} \| plain-again \| {figure} \| \d+\.\d+ \| .* to .* \| 2, 2 \|  \|  \|")
            self.assertEqual(len(read(out, "alone.jsonl").splitlines()), 2 * (4 + 3))
            self.assertIn("plain-again:", read(out, "said.txt"))

    def test_hooks_are_off_and_on_in_one_process(self):
        with tempfile.TemporaryDirectory() as out:
            done = start(ALONE, out, "--trainings=gpt2-eager", "--repetitions=2", "--starts=1", "--switch")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            for under in ("tally", "tally-beside-idle"):
                self.assertRegex(done.stdout, rf"\| gpt2-eager \| {under} \| steps a second \| \d+\.\d+ \| one start \| 1, 2 \|")
            self.assertNotIn("-off |", done.stdout)
            self.assertEqual(len(read(out, "alone.jsonl").splitlines()), 2 * 4)
            said = read(out, "said.txt")
            self.assertEqual(said.count("hooks off"), 4)
            self.assertEqual(said.count("hooks on"), 4)
            self.assertNotIn("plain:", said)

    def test_what_is_wrong_is_named(self):
        with tempfile.TemporaryDirectory() as out:
            done = start(ALONE, out, "--trainings=gpt2-eager", "--inference=bert-graph", "--repetitions=1", "--starts=1", STAND_IN_WRONG="gpt2-eager")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stdout, r"FAILED  gpt2-eager tally repetition 1: gpt2-eager tally: step 1 computes other bits")
            self.assertIn("| bert-graph | tally | P50 |", done.stdout)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
