#!/usr/bin/env python3
"""The harness of a language model's server, with stand-ins for llama-server and for the training: streams,
capacities, and environments; a run from beginning to end that continues after an interruption; servers that end,
hang or answer wrongly.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.dirname(HERE), HERE]
import evaluation  # the module adds its folders to the path
import client
import programs
import systems
import tables
from two_processes import Ended

SERVER, TRAINERS = os.path.join(HERE, "stand_in", "server.py"), os.path.join(HERE, "..", "pytorch", "stand_in")
PROMPT, TOKEN = 0.02, 0.005  # seconds; settings of stand_in/server.py
MS = 1000000  # in nanoseconds


def response(*parts, status="200 OK"):
    """Instants and pieces of a chunked answer; each part: an instant in milliseconds and the text of a chunk."""
    pieces = [(0, f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())]
    for at, text in parts:
        pieces.append((at * MS, f"{len(text):x}\r\n{text}\r\n".encode()))
    return pieces + [(99 * MS, b"0\r\n\r\n")]


def event(*tokens, stop=False):
    return "data: " + json.dumps({"tokens": list(tokens), "stop": stop}) + "\n\n"


def answer(arrival, times, end=None):
    """All times in milliseconds; the request was sent a millisecond late."""
    times = [at * MS for at in times]
    return client.Answer(arrival * MS, (arrival + 1) * MS, list(range(len(times))), times, (end or times[-1] / MS) * MS)


class Streams(unittest.TestCase):
    def read(self, pieces, wanted=3):
        return client.read(0, 1, pieces, None, wanted)

    def test_tokens_have_the_instants_at_which_they_were_whole(self):
        whole = event(8)
        pieces = response((10, event(7)), (12, whole[:11]), (15, whole[11:] + event(9)), (16, event(stop=True)))
        cut = [(at, data[i:i + 5]) for at, data in pieces for i in range(0, len(data), 5)]
        for each in (pieces, cut):
            found = self.read(each)
            self.assertEqual((found.trouble, found.tokens, found.times), ("", [7, 8, 9], [10 * MS, 15 * MS, 15 * MS]))
        (_, header), (at, chunk), *rest = response((10, event(7)), (16, event(stop=True)))
        found = self.read([(0, header + chunk[:6]), (at, chunk[6:]), *rest], 1)
        self.assertEqual((found.trouble, found.times), ("", [10 * MS]))

    def test_what_is_not_whole_is_named(self):
        self.assertIn("broke off behind 1 tokens", self.read(response((10, event(7)))).trouble)
        self.assertIn("1 tokens came of 3", self.read(response((10, event(7)), (11, event(stop=True)))).trouble)
        self.assertIn("status 503: busy", self.read(response((10, "busy"), status="503 no")).trouble)
        self.assertIn("no answer", self.read([]).trouble)
        self.assertIn("error: {'code': 5}", self.read(response((10, 'data: {"error": {"code": 5}}\n\n'))).trouble)
        with self.assertRaisesRegex(client.Wrong, "1 of 2 requests have no whole answer; request 2: late"):
            client.finished([lambda: answer(0, [1]), lambda: client.Answer(0, 0, [], [], 0, "late")])

    def test_figures_of_a_load(self):
        # Two requests overlap from 0 to 30 ms, the third is alone from 50 to 60 ms: 40 ms of 60 are active.
        found = client.figures([answer(0, [10, 12, 16]), answer(5, [20, 25, 30]), answer(50, [54, 57, 60])])
        self.assertEqual(found["ttft_us"], [10000, 15000, 4000])
        self.assertEqual(found["tpot_us"], [2000, 4000, 5000, 5000, 3000, 3000])
        self.assertAlmostEqual(found["active"], 40 / 60)
        self.assertAlmostEqual(found["tokens_per_s"], 9 / 0.06)
        self.assertAlmostEqual(found["service_us_per_token"], 40000 / 9)

    def test_capacity_counts_what_came_in_the_window(self):
        # Between 0 and 100 ms come 20 tokens, or five requests of four: 50 a second.
        loop = [answer(0, range(4, 44, 4)), answer(0, range(50, 100, 5)), answer(90, [101, 105, 110, 115])]
        self.assertAlmostEqual(client.capacity(loop, 0, 100 * MS, 4), 50)

    def test_prompts_are_the_same_for_the_same_seed(self):
        work = client.Work(1000, 64, 2000, 8)
        prompts = [work.prompt(f"poisson 1 {number}") for number in range(300)]
        self.assertEqual(prompts[7], work.prompt("poisson 1 7"))
        lengths = sorted(map(len, prompts))
        self.assertTrue(64 <= lengths[0] < 80 and 1600 < lengths[-1] <= 2000, (lengths[0], lengths[-1]))
        self.assertAlmostEqual(lengths[150], (64 * 2000) ** 0.5, delta=90)
        self.assertGreaterEqual(min(map(min, prompts)), client.Work.SPECIAL)


class Systems(unittest.TestCase):
    def test_targets_of_slo_are_over_a_step_alone(self):
        self.assertEqual(systems.BY_NAME["tally-mps-slo-1.25"].policy(), "slo:factor=1.25,queues=0")
        self.assertEqual(systems.BY_NAME["tally-time-slicing-slo-1.1"].policy(), "slo:factor=1.1,queues=0")
        self.assertEqual(systems.BY_NAME["tally-mps"].policy(), "priority")

    def test_shares_of_mps_are_the_trainings(self):
        for name, share in (("mps-25", "25"), ("mps-50", "50")):
            self.assertEqual(systems.BY_NAME[name].trainer, (("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", share),))
            self.assertEqual(systems.BY_NAME[name].server, ())
        self.assertEqual([each.name for each in systems.BY_NAME.values() if systems.is_share(each)], ["mps-25", "mps-50"])


class WithServer(unittest.TestCase):
    def server(self, sequences=2, patience=20, **environment):
        server = programs.Server([SERVER], ["-m", "x", "-np", str(sequences)], environment, patience)
        self.addCleanup(server.kill)
        return server

    def test_times_are_those_of_the_server(self):
        server, work = self.server(), client.Work(1000, 64, 128, 10)
        server.wait()
        self.assertEqual(server.vocabulary(), 1000)
        found = client.figures(client.open_loop(server.port, work, [1000.0, 1000.0, 2000.0, 400000.0], "load", 20))
        *together, late = (each / 1e6 for each in found["ttft_us"])
        first, second, waits = sorted(together)  # any of the three may reach the server last
        request = PROMPT + 10 * TOKEN
        for each in (first, second, late):
            self.assertTrue(PROMPT + TOKEN <= each < 1, each)  # a slow machine takes longer, but not a thousand times as long
        self.assertGreater(waits, request + PROMPT)  # two are at work
        gaps = sorted(found["tpot_us"])
        self.assertEqual(len(gaps), 36)
        self.assertTrue(TOKEN * 0.9e6 <= gaps[18] < TOKEN * 20e6, gaps[18])
        self.assertEqual(found["answers"][0], client.digest(client.one(server.port, work, "load 0", 20).tokens))
        self.assertIn("environment", server.end())

    def test_capacity_is_that_of_all_sequences(self):
        server, work = self.server(sequences=4), client.Work(1000, 64, 128, 10)
        server.wait()
        answers, begin, end = client.closed_loop(server.port, work, 4, 1.0, 8, "capacity", 20)
        found, most = client.capacity(answers, begin, end, 10), 4 / (PROMPT + 10 * TOKEN)
        self.assertTrue(0.1 * most < found <= 1.05 * most, (found, most))

    def test_a_server_that_does_not_start_is_named(self):
        with self.assertRaisesRegex(Ended, "the server ended with 1: refused as asked"):
            self.server(STAND_IN_REFUSES="1").wait()
        began = time.monotonic()
        with self.assertRaisesRegex(Ended, "does not answer /health after 1 s"):
            self.server(patience=1, STAND_IN_SILENT="1").wait()
        self.assertLess(time.monotonic() - began, 10)


class Harness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out, self.weights = os.path.join(folder.name, "figures"), os.path.join(folder.name, "weights")
        with open(self.weights, "w") as file:
            file.write("x")

    def run_it(self, *more, **environment):
        command = [sys.executable, os.path.join(HERE, "run"), "--device=cpu", f"--server={SERVER}", f"--weights={self.weights}",
                   f"--programs={TRAINERS}", f"--launcher={TRAINERS}/tally", "--training=gpt2-eager", "--sequences=2", "--requests=6",
                   "--tokens=5", "--prompts=8-32", "--capacity-seconds=0.3", "--seconds=0.1", "--repetitions=1", f"--out={self.out}", *more]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment})

    def read(self, name):
        with open(os.path.join(self.out, name)) as file:
            return file.read()

    def rows(self):
        return [json.loads(line) for line in self.read("measurements.jsonl").splitlines()]

    def test_measures_and_goes_on(self):
        done = self.run_it("--arrivals=poisson,bursty", "--repetitions=2", "--minutes=0.04")
        self.assertEqual(done.returncode, 75, done.stderr + done.stdout)
        some = self.read("measurements.jsonl")
        done = self.run_it("--arrivals=poisson,bursty", "--repetitions=2")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("right  the probe has the same tokens", done.stdout)
        self.assertIn("not measured  mps-25: not on the cpu", done.stdout)
        self.assertTrue(self.read("measurements.jsonl").startswith(some))
        here = {name for name, system in systems.BY_NAME.items() if not system.mps and system.server is not None}
        with open(os.path.join(self.out, "cells.csv"), newline="") as file:
            cells = list(csv.DictReader(file))
        self.assertEqual({(row["system"], row["arrivals"]) for row in cells}, {(name, kind) for name in here for kind in ("poisson", "bursty")})
        for row in cells:
            self.assertEqual((row["repetitions"], row["requests"], float(row["same_answers"])), ("2", "12", 1.0))
            self.assertEqual(row["best_effort"] != "", row["system"] != "alone")
            if row["system"] == "alone":
                self.assertEqual((float(row["ttft_p99"]), float(row["tpot_p99_low"])), (1.0, 1.0))
        rows = {(row["system"], row["repetition"]): row for row in self.rows()}
        step = rows["capacity", 1]["step_us"]
        self.assertTrue(TOKEN * 0.9e6 <= step < TOKEN * 20e6, step)
        self.assertEqual(rows["tally-time-slicing-slo-1.5", 1]["policy"], "slo:factor=1.5,queues=0")
        self.assertAlmostEqual(rows["alone", 2]["period_us"], 1e6 / rows["capacity", 2]["per_s"] / 0.7)
        said = self.read("said.txt")
        self.assertRegex(said, r"tally-time-slicing pytorch: called: run --best-effort\n")
        self.assertRegex(said, r"tally-time-slicing server: called: run --\n.*TALLY_ARENA.*TALLY_STATS")
        self.assertRegex(said, r" alone server: environment: \{\}")
        before = self.read("measurements.jsonl")
        self.assertEqual(self.run_it("--arrivals=poisson,bursty", "--repetitions=2").returncode, 0)
        self.assertEqual(self.read("measurements.jsonl"), before)
        self.assertIn("another size", self.run_it("--tokens=6").stderr)

    def test_trains_by_a_command(self):
        steps = (f"{sys.executable} -c 'import os,sys,time\nprint([os.environ.get(f\"TALLY_{{name}}\") for name in (\"CLASS\", \"POLICY\")], file=sys.stderr)\n"
                 "while True: print(\"step\"); time.sleep(0.002)'")
        done = self.run_it("--systems=time-slicing,tally-time-slicing,tally-time-slicing-slo-1.5", f"--trainer={steps}")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        for row in self.rows():
            if "steps_per_s" in row:
                self.assertTrue(5 < row["steps_per_s"] < 500, row["steps_per_s"])
        said = self.read("said.txt")
        self.assertRegex(said, r" time-slicing command: \[None, None\]\n")
        self.assertRegex(said, r"tally-time-slicing command: called: run --best-effort\n\['best-effort', 'priority'\]\n")
        self.assertIn("['best-effort', 'slo:factor=1.5,queues=0']", said)

    def test_all_systems_have_their_environments(self):
        """With stand-ins for the two programs of the driver, as on a GPU."""
        places = os.path.join(os.path.dirname(self.out), "bin")
        os.mkdir(places)
        for name, does in (("nvidia-smi", "echo 'Stand-in, 1.2'"), ("nvidia-cuda-mps-control", "cat > /dev/null")):
            with open(os.path.join(places, name), "w") as file:
                file.write(f"#!/bin/sh\n{does}\n")
            os.chmod(os.path.join(places, name), 0o755)
        steps = (f"{sys.executable} -c 'import os,sys,time\nprint({{each: os.environ[each] for each in sorted(os.environ) if each.startswith((\"CUDA_MPS\", \"TALLY_GREEN\"))}}, "
                 "file=sys.stderr)\nwhile True: print(\"step\"); time.sleep(0.002)'")
        done = self.run_it("--device=cuda", "--cpus=all", f"--trainer={steps}", PATH=f"{places}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn("not measured", done.stdout)
        self.assertEqual({row["system"] for row in self.rows()} - {"capacity"}, set(systems.BY_NAME))
        said, place = self.read("said.txt"), r"'CUDA_MPS_LOG_DIRECTORY': '[^']*', 'CUDA_MPS_PIPE_DIRECTORY': '[^']*'"
        for name, system in systems.BY_NAME.items():
            under = place if system.mps else ""
            if system.server is not None:
                self.assertRegex(said, rf" {name} server: (called: .*\n)?environment: \{{{under}(, |\}}|'TALLY)")
            if system.trainer is not None:
                own = [f"'{variable}': '{value}'" for variable, value in system.trainer]
                all_of_them = ", ".join(sorted(own + [place] * system.mps))
                self.assertRegex(said, rf" {name} command: (called: .*\n)?\{{{all_of_them}\}}")

    def test_linked_programs_need_no_launcher(self):
        steps = f"{sys.executable} -c 'import time\nwhile True: print(\"step\"); time.sleep(0.002)'"
        done = self.run_it("--systems=tally-time-slicing", f"--trainer={steps}", f"--linked-trainer={steps}", f"--linked-server={SERVER}")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertNotIn("called: run", self.read("said.txt"))

    def failed(self, *more, **environment):
        """Output about the systems that failed; checks that systems without Tally have figures."""
        began = time.monotonic()
        done = self.run_it("--systems=time-slicing,tally-time-slicing", "--patience=15", *more, **environment)
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        self.assertNotIn("right ", done.stdout)
        self.assertLess(time.monotonic() - began, 100)
        self.assertEqual({row["system"] for row in self.rows() if "ttft_us" in row} - {"tally-time-slicing"}, {"alone", "time-slicing"})
        return done.stdout

    def test_a_server_that_ends_is_named(self):
        self.assertRegex(self.failed(STAND_IN_CRASH="1"),
                         r"FAILED  llama-2/gpt2-eager tally-time-slicing repetition 1: the server ended with 7: (.*\n)*crashed as asked")
        self.assertIn("tally-time-slicing pytorch: called: run --best-effort", self.read("said.txt"))

    def test_a_server_that_ends_badly_is_named(self):
        self.assertIn("FAILED  llama-2/gpt2-eager tally-time-slicing repetition 1: the server ended with 9 when it was to end",
                      self.failed(STAND_IN_ENDS="1"))

    def test_a_server_that_hangs_is_named(self):
        self.assertIn("FAILED  llama-2/gpt2-eager tally-time-slicing repetition 1: no whole answer after 15 s", self.failed(STAND_IN_HANG="1"))

    def test_other_tokens_are_named(self):
        self.assertIn("FAILED  llama-2/gpt2-eager tally-time-slicing repetition 1: the probe before the load has other tokens",
                      self.failed(STAND_IN_WRONG="1"))

    def test_a_training_that_ends_is_named(self):
        steps = f"{sys.executable} -c 'import os,time\nfor i in range(10**9 * (\"TALLY_ARENA\" not in os.environ)): print(\"step\"); time.sleep(0.002)'"
        self.assertIn("tally-time-slicing repetition 1: the training ended with 0 behind 0 steps", self.failed(f"--trainer={steps}"))

    def test_no_server_is_no_hang(self):
        done = self.run_it("--systems=time-slicing", STAND_IN_REFUSES="1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("alone repetition 1: the server ended with 1: refused as asked", done.stdout)
        self.assertIn("time-slicing repetition 1: the server's capacity alone is not known", done.stdout)


class Tables(unittest.TestCase):
    def row(self, system, repetition, ttft, steps=None):
        more = {"steps_per_s": steps, "alone_steps_per_s": 10.0} if steps else {}
        return {"pair": "p", "system": system, "arrivals": "poisson", "load": 0.5, "repetition": repetition, "asked": 2, "period_us": 1e5,
                "ttft_us": ttft, "tpot_us": [100.0, 100.0], "tokens_per_s": 5.0, "service_us_per_token": 1.0, "active": 0.6,
                "answers": ["a", "b"], **more}

    def test_ratios_are_over_alone_of_the_same_repetition(self):
        rows = [self.row("alone", 1, [10.0, 20.0]), self.row("alone", 2, [10.0, 40.0]), self.row("mps", 1, [20.0, 60.0], 4.0),
                self.row("mps", 2, [20.0, 40.0], 2.0), self.row("mps", 3, [1.0, 1.0], 2.0)]
        alone, mps = tables.summarize(rows)
        self.assertEqual((alone["ttft_p99"], alone.get("best_effort")), (1.0, None))
        self.assertEqual((mps["repetitions"], mps["ttft_p99_low"], mps["ttft_p99_high"], mps["ttft_p99"]), (2, 1.0, 3.0, 60 / 40))
        self.assertAlmostEqual(mps["best_effort"], 0.3)
        self.assertAlmostEqual(mps["best_effort_of_rest"], 0.3 / 0.4)
        self.assertIn("mps", tables.text([alone, mps]))


if __name__ == "__main__":
    unittest.main()
