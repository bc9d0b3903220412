#!/usr/bin/env python3
"""The oracle's choice, the verdicts on slo's bounds, and the comparison of curves, on made-up measurements; the
environment of slo's processes.

  frontier_test.py
"""
import os
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from evaluation import frontier, measuring, models, results, session, systems

LOAD = 0.3


def measured(system, p99, best_effort, pair="p", asked=100, served=None):
    """A repetition in which 2 of 100 requests take `p99` times as long as alone."""
    row = {"pair": pair, "system": system, "arrivals": "poisson", "load": LOAD, "repetition": 1, "active": 0.25, "seconds": 1, "span_s": 1,
           "latency_us": ([1000.0] * 98 + [2000.0 * p99] * 2)[:served], "asked": asked}
    return {**row, "steps_per_s": 10.0 * best_effort, "alone_steps_per_s": 10.0} if best_effort is not None else row


def table(*points, pair="p"):
    """`points`: (system, P99 over alone, best effort)."""
    return results.summarize([measured("alone", 1, None, pair), *(measured(*point, pair=pair) for point in points)], 1.25)


class Oracle(unittest.TestCase):
    def test_takes_the_most_within_the_bound(self):
        cells = frontier.groups(table(("tally-everything", 1.02, 0.60), ("mps-10", 1.08, 0.65), ("partition-25", 1.10, 0.68),
                                      ("green-training-32", 1.2, 0.80), ("mps", 5, 1.0), ("slo-110", 1.05, 0.9), ("rate", 1, 0.99)))
        (cells,) = cells.values()
        self.assertEqual(frontier.oracle(cells, 1.10)["system"], "partition-25")  # the bound itself is within
        self.assertEqual(frontier.oracle(cells, 1.25)["system"], "green-training-32")
        self.assertEqual(frontier.oracle(cells, 1.05)["system"], "tally-everything")
        self.assertIsNone(frontier.oracle(cells, 1.01))

    def test_takes_none_whose_requests_were_cut_off(self):
        rows = [measured("alone", 1, None), measured("mps", 1.0, 0.9, served=60), measured("tally-everything", 1.0, 0.6)]
        (cells,) = frontier.groups(results.summarize(rows, 1.25)).values()
        self.assertEqual(frontier.oracle(cells, 1.10)["system"], "tally-everything")
        self.assertEqual([system for _, _, system in frontier.Envelope(cells).steps], ["tally-everything"])


class Promises(unittest.TestCase):
    def verdicts(self, *points):
        return {row["system"]: row for row in frontier.promises(table(*points))}

    def test_each_system_for_its_own_bound(self):
        found = self.verdicts(("tally-everything", 1.0, 0.60), ("mps-25", 1.09, 0.64), ("mps-50", 1.2, 0.8),
                              ("slo-110", 1.12, 0.62), ("slo-125", 1.29, 0.7), ("slo-125-target", 1.27, 0.72))
        self.assertEqual({name: (row["bound"], row["kept"], row["oracle"]) for name, row in found.items()},
                         {"slo-110": (1.10, True, "mps-25"), "slo-125": (1.25, False, "mps-50"), "slo-125-target": (1.25, True, "mps-50")})
        self.assertAlmostEqual(found["slo-110"]["over_oracle"], 0.62 / 0.64)
        self.assertAlmostEqual(found["slo-125-target"]["over_oracle"], 0.9)
        self.assertAlmostEqual(found["slo-110"]["over_priority"], 0.62 / 0.60)

    def test_says_who_has_less_than_priority(self):
        def last_lines(effort):
            return frontier.promise_lines(frontier.promises(table(("tally-everything", 1.0, 0.60), ("slo-110", 1.0, effort))))[-1]
        self.assertRegex(last_lines(0.595), "less than priority in none$")
        self.assertRegex(last_lines(0.593), "less than priority in p$")

    def test_an_oracle_of_nothing(self):
        row = self.verdicts(("tally-everything", 1.5, 0.60), ("slo-110", 1.5, 0.6))["slo-110"]
        self.assertEqual((row["kept"], row["oracle"], row["over_oracle"]), (False, None, None))
        self.assertIn("none within the bound", frontier.text(table(("tally-everything", 1.5, 0.60), ("slo-110", 1.5, 0.6))))


class Curves(unittest.TestCase):
    def above(self, *points):
        return {row["family"]: [system for _, _, system, _ in row["above"]] for row in frontier.comparisons(table(*points))}

    def test_an_envelope(self):
        (cells,) = frontier.groups(table(("mps-10", 1.1, 0.2), ("mps-25", 1.3, 0.5), ("mps-50", 1.4, 0.6), ("mps", 1.4, 0.9), ("mps-90", 1.6, 0.8))).values()
        curve = frontier.Envelope(cells)
        self.assertEqual([system for _, _, system in curve.steps], ["mps-10", "mps-25", "mps"])
        self.assertEqual([curve.at(each) for each in (1.0, 1.1, 1.2, 1.3, 1.39, 1.4, 9)], [None, 0.2, 0.2, 0.5, 0.5, 0.9, 0.9])

    def test_where_others_are_above(self):
        ours = ("tally-everything", 1.05, 0.6), ("partition-50", 1.5, 0.8)
        self.assertEqual(self.above(*ours, ("mps-10", 1.05, 0.6), ("mps-50", 1.5, 0.807), ("green-training-8", 1.2, 0.3)),
                         {"MPS": [], "green contexts": []})
        # Just left of tally's second step; and where tally has no point.
        self.assertEqual(self.above(*ours, ("mps-50", 1.49, 0.7), ("green-training-8", 1.01, 0.1), ("mps", 9, 0.82)),
                         {"MPS": ["mps-50", "mps"], "green contexts": ["green-training-8"]})

    def test_steered_settings_are_on_tallys_curve(self):
        self.assertEqual(self.above(("tally-everything", 1.05, 0.6), ("slo-125", 1.2, 0.75), ("mps-50", 1.3, 0.7)), {"MPS": []})
        self.assertEqual(self.above(("tally-everything", 1.05, 0.6), ("mps-50", 1.3, 0.7)), {"MPS": ["mps-50"]})

    def test_pairs_are_kept_apart(self):
        both = table(("tally-everything", 1.05, 0.6), ("mps-50", 1.3, 0.5)) + table(("tally-everything", 1.05, 0.6), ("mps-50", 1.3, 0.7), pair="q")
        self.assertEqual([(row["pair"], len(row["above"])) for row in frontier.comparisons(both)], [("p", 0), ("q", 1)])
        self.assertIn("not below that of MPS at any P99 in 1 of 2, at none up to 2 in 1", frontier.text(both))
        far = table(("tally-everything", 1.05, 0.6), ("mps", 9, 0.9))
        self.assertIn("not below that of MPS at any P99 in 0 of 1, at none up to 2 in 1", frontier.text(far))
        with tempfile.TemporaryDirectory() as folder:
            frontier.write(folder, both)
            with open(os.path.join(folder, "frontier.csv")) as file:
                self.assertEqual(len(file.readlines()), 5)


class Group(unittest.TestCase):
    def test_every_system_has_one_family(self):
        self.assertEqual(len(systems.GROUPS["frontier"]), len(set(systems.GROUPS["frontier"])))
        for name in systems.GROUPS["frontier"]:
            self.assertIn(name, systems.BY_NAME)
        self.assertEqual({systems.BY_NAME[name].bound for name in systems.FRONTIER[frontier.STEERED]}, set(frontier.PROMISES))


def made_session(case, *names):
    arguments = types.SimpleNamespace(device="cuda", size="real", programs="")
    arguments.models = models.Cuda(arguments)
    made = session.Session(arguments, session.Pair("bert", "graph", "dlrm"), [systems.BY_NAME[name] for name in names])
    case.addCleanup(os.rmdir, made.folder)
    made.started = []
    made.spawn = lambda system, role, part: made.started.append((system.name, made.environment(system, role).get("TALLY_POLICY")))
    made.process = lambda system, role, part: None
    return made


class Batches(unittest.TestCase):
    """The number of trainings in the GPU's memory at a time."""

    def cut(self, most, *names):
        return [[system.name for system in part] for part in measuring.batches([systems.BY_NAME[name] for name in names], most)]

    def test_trainers(self):
        # A plain process serves all systems that use it alike, `alone` included.
        names = "alone", "low-priority", "time-slicing", "mps-10", "mps-25", "green-training-8", "slo-110"
        self.assertEqual(self.cut(99, *names), [list(names)])
        self.assertEqual(self.cut(3, *names), [["alone", "low-priority", "time-slicing", "mps-10"], ["mps-25", "green-training-8"], ["slo-110"]])
        self.assertEqual(self.cut(1, *names[:4]), [["alone", "low-priority"], ["time-slicing"], ["mps-10"]])

    def test_the_group(self):
        wanted = ["alone", *(name for name in systems.BY_NAME if name in systems.GROUPS["frontier"])]
        self.assertEqual([len(part) for part in self.cut(10, *wanted)], [11, 9, 7])

    def test_taking_turns(self):
        ended, killed = [], []

        def process(name):
            said = types.SimpleNamespace(kill=lambda: killed.append(name), wait=lambda: None)
            return types.SimpleNamespace(end=lambda: ended.append(name) or "said", process=said)
        made = made_session(self, "alone", "mps-10", "partition-12", "partition-25")
        for system in made.wanted:
            for role, part in made.roles(system):
                made.spawned[made.key(system, role, part)] = process(system.name)
        made.processes = {key: each for key, each in made.spawned.items() if key[0] != "partition-12"}  # which never came so far
        made.loaded = {(key, "training"): ("dlrm",) for key in made.processes}
        made.learnt = {"partition-12", "partition-25"}
        made.only([systems.BY_NAME["partition-25"]])
        self.assertEqual((ended, killed), (["mps-10"] * 2, ["partition-12"]))
        self.assertEqual([key[0] for key in made.spawned], ["", "partition-25"])
        self.assertEqual((list(made.processes), [key for key, _ in made.loaded]), (list(made.spawned), list(made.spawned)))
        self.assertEqual((made.learnt, [said for _, _, said in made.gone]), ({"partition-25"}, ["said"] * 2))
        self.assertEqual([name for name, _ in made.started], ["partition-25"])


class Targets(unittest.TestCase):
    """slo's target comes from the measurement of `alone`, before slo's processes start."""

    def test_target(self):
        made = made_session(self, "alone", "slo-110", "slo-110-target", "slo-125-target")
        made.start()
        self.assertEqual(made.started, [("alone", None), ("slo-110", "slo:factor=1.1")])
        with self.assertRaisesRegex(session.Wrong, "no target"):
            made.environment(systems.BY_NAME["slo-110-target"], systems.BY_NAME["slo-110-target"].server)
        made.started.clear()
        made.learn_alone(2000.0)
        self.assertEqual(made.started[-2:], [("slo-110-target", "slo:target-us=2200"), ("slo-125-target", "slo:target-us=2500")])

    def test_busy_times_are_those_of_the_server(self):
        # The second request waits for the first: both take 100 us of the server's time.
        row = {"latency_us": [100.0, 150.0, 100.0]}
        self.addCleanup(setattr, measuring.lateness, "arrivals", measuring.lateness.arrivals)
        measuring.lateness.arrivals = lambda row: [1000.0, 1050.0, 2000.0]
        self.assertEqual(measuring.busy_us(row), 100.0)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
