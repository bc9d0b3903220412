#!/usr/bin/env python3
"""The counts and comparisons of logs.py on made-up measurements, and the file of cupti_log.

  logs_test.py [CUPTI_STAND_IN]
"""
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from evaluation import logs, models, results, session, systems

STAND_IN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
SECOND = 10**9


def measured(system, repetition=1, worst=1.0, steps=10.0):
    return {"pair": "p", "system": system, "arrivals": "poisson", "load": 0.3, "repetition": repetition, "begin": 5 * SECOND, "end": 7 * SECOND,
            "latency_us": [100.0] * 90 + [100.0 * worst] * 10, "steps_per_s": steps}


class Counts(unittest.TestCase):
    def test_records_while_requests_are_measured(self):
        at = [4.9, 5.0, 5.5, 6.9, 7.0]
        begins = [each * SECOND for each in at]
        self.assertEqual(logs.within(begins, 0, 5 * SECOND, 7 * SECOND), 1.5)
        # The time counts from 6 on, since older records were lost.
        self.assertEqual(logs.within([6 * SECOND, 6.5 * SECOND], 3, 5 * SECOND, 7 * SECOND), 2)
        self.assertEqual(logs.within([7.5 * SECOND], 3, 5 * SECOND, 7 * SECOND), 0)
        self.assertEqual(logs.within([], 0, 5 * SECOND, 7 * SECOND), 0)

    def test_a_trace(self):
        events = [{"ph": "M", "name": "thread_name"}, {"ph": "X", "ts": 5.1e6, "dur": 5}, {"ph": "i", "ts": 5.2e6},
                  {"ph": "b", "ts": 5.3e6}, {"ph": "e", "ts": 5.4e6}]
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "trace.json"), "w") as file:
                json.dump({"traceEvents": events, "otherData": {"lost_events": 0}}, file)
            wanted = [systems.BY_NAME[name] for name in systems.GROUPS["log"]]
            rows = [measured("tally-traced"), measured("tally-traced", 2), measured("tally-everything")]
            (found,) = logs.counts(folder, wanted, rows, [(types.SimpleNamespace(name="p"), 1)])
            self.assertEqual((found["system"], found["repetition"], found["records_per_s"]), ("tally-traced", 1, 1))
            self.assertEqual(found["bytes_per_s"], found["file_bytes"] / 2)
            store = results.Store(os.path.join(folder, "out"))
            store.logs([found])
            self.assertEqual(list(logs.read(store.folder).values()), [found])

    @unittest.skipUnless(STAND_IN, "no cupti_stand_in")
    def test_cuptis_records(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cupti.log")
            done = subprocess.run([STAND_IN], env={**os.environ, "CUPTI_LOG_FILE": path}, capture_output=True, text=True, timeout=60, check=True)
            self.assertEqual(done.stderr, "cupti_log: 2 kernels, 1 calls, 6 dropped, 168 bytes\n")
            with open(path, "rb") as file:
                first, call, second = logs.CUPTI_RECORD.iter_unpack(file.read())
            begin = first[0]
            # Begin, end, CUPTI's kind, name or call, correlation, stream or thread, grid, block, bytes of shared
            # memory.
            self.assertEqual(first[1:], (begin + 5000, 10, 0, 11, 7, 100000, 2, 1, 1024, 1, 1, 0, 4096))
            self.assertEqual(call, (begin + 20000, begin + 21000, 4, 307, 12, 99, *[0] * 8))
            self.assertEqual(second[:9], (begin + 10000, begin + 15000, 10, 1, 11, 7, 3, 2, 1))
            with open(path + ".names") as file:
                self.assertEqual(file.read(), "first<int, 2>\nsecond\n")
            self.assertEqual(logs.read_cupti(path), ([begin, begin + 20000, begin + 10000], 56, 0))


class Costs(unittest.TestCase):
    def test_over_the_same_without(self):
        rows = [measured("tally-everything"), measured("tally-everything", 2, 2.0, 20.0), measured("tally-everything", 3),
                measured("tally-traced", 1, 1.01, 9.9), measured("tally-traced", 2, 2.2, 20.2), measured("alone")]
        logged = {tuple(row[each] for each in results.KEY): {**row, "records_per_s": 1000, "bytes_per_s": 2e6} for row in rows[3:4]}
        (found,) = logs.table(rows, logged)
        self.assertEqual((found["system"], found["repetitions"], found["records_per_s"]), ("tally-traced", 2, 1000))
        self.assertEqual((found["p99"], found["p99_low"], found["p99_high"]), (1.1, 1.01, 1.1))
        self.assertAlmostEqual(found["best_effort"], 1.0)
        self.assertAlmostEqual(found["best_effort_low"], 0.99)
        self.assertIn("tally-traced: P99 1.1000, best effort 1.0000, means of 1 cells; both cost at most 1%: NO", logs.text([found]))
        self.assertIn("at most 1%: yes", logs.text([{**found, "p99": 1.01, "best_effort": 0.99}]))
        self.assertIn("at most 1%: NO", logs.text([{**found, "p99": 1.0, "best_effort": 0.989}]))

    def test_no_library(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = types.SimpleNamespace(device="cuda", size="real", programs=os.path.join(folder, "workloads"))
            arguments.models = models.Cuda(arguments)
            system = systems.BY_NAME["tally-cupti"]
            made = session.Session(arguments, session.Pair("bert", "graph", "dlrm"), [system])
            self.addCleanup(os.rmdir, made.folder)
            made.start()
            self.assertFalse(made.prepare(system))
            self.assertRegex(made.unavailable["tally-cupti"], "no .*libcupti_log.so")


if __name__ == "__main__":
    unittest.main(warnings="ignore")
