#!/usr/bin/env python3
"""The steps that recording.py finds in a trace, and the scenario that simulated.py makes of them, by numbers worked
out by hand.

  recording_test.py
"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
from evaluation import recording, simulated, systems


def event(begin, name, took, kind="guard", blocks=10, tid=10, phase="X"):
    return {"ph": phase, "tid": tid, "ts": begin, "dur": took, "name": name, "args": {"kind": kind, "blocks": blocks}}


def thread(tid, name):
    return {"ph": "M", "tid": tid, "name": "thread_name", "args": {"name": name}}


TRACE = [thread(10, "lane 0"), thread(11, "lane 0: waits"), thread(1, "high priority"), event(5, "a", 1), event(10, "z", 2), event(10, "a", 3),
         event(10, "batch", 9), event(12, "active", 9, tid=1), event(12, "waiting", 9, tid=11), event(13, "z", 0, phase="i"), event(20, "z", 1)]


class Work(unittest.TestCase):
    def test_lanes_between_two_instants(self):
        # Events with the same begin keep the order of the trace.
        self.assertEqual([each[:3] for each in recording.work(TRACE, 10, 20)], [(10, "z", 2), (10, "a", 3)])


class Step(unittest.TestCase):
    def launches(self, names, times, kinds=None):
        return [(i, name, took, kind, 4) for i, (name, took, kind) in enumerate(zip(names, times, kinds or ["guard"] * len(names)))]

    def test_means_by_place(self):
        # The window began and ended within a step.
        found = recording.step(self.launches("bcabcabca", [2, 4, 1, 4, 6, 3, 6, 8, 5]), 3.2)
        self.assertEqual([(each["name"], each["us"]) for each in found], [("b", 4), ("c", 6), ("a", 3)])

    def test_a_step_of_several_alike(self):
        # The period matches the counted steps; it is not the shortest period.
        self.assertEqual(len(recording.step(self.launches("aa" * 6, [1] * 12), 3)), 4)

    def test_the_last_kind(self):
        found = recording.step(self.launches("abab", [1, 1, 1, 1], ["guard", "guard", "checkpoint", "guard"]), 2)
        self.assertEqual([each["kind"] for each in found], ["checkpoint", "guard"])

    def test_what_does_not_repeat(self):
        for names, steps in (("abcacb", 2), ("abc", 1), ("", 1)):
            with self.assertRaisesRegex(ValueError, "no step repeats"):
                recording.step(self.launches(names, [1] * len(names)), steps)


class Scenario(unittest.TestCase):
    def test_blocks(self):
        def block_us(us, kind, blocks):
            (found,) = simulated.of_log({"step": [{"name": "a", "us": us, "kind": kind, "blocks": blocks}]}, 100)
            return found["block_us"], found["variants"]
        self.assertEqual(block_us(80, "persistent", 1600), (20, True))  # four waves of 100 x 4
        self.assertEqual(block_us(80, "guard", 10), (80, True))
        self.assertEqual(block_us(800, "checkpoint", 400), (20, True))
        self.assertEqual(block_us(8, "checkpoint", 400), (8, True))
        self.assertEqual(block_us(80, "non-preemptible", 1600), (20, False))

    def test_who_waits_for_the_host(self):
        kernels = [{"name": name, "us": 99.0, "variants": True, "block_us": 10.0} for name in "ab"]
        self.assertEqual([each["host_us"] for each in simulated.training(kernels, 1e6 / 200)["kernels"]], [simulated.LAUNCH_US] * 2)
        slow = simulated.training(kernels, 1e6 / 300)
        self.assertEqual((slow["step_us"], [each["host_us"] for each in slow["kernels"]]), (300, [150] * 2))

    def test_policies(self):
        self.assertEqual(simulated.policy({"system": "tally-everything"}), [])
        self.assertEqual(simulated.policy({"system": "partition-25"}), ["--policy=partition:least=0.25,most=0.25"])
        self.assertEqual(simulated.policy({"system": "slo-125-target", "busy_us": 1000.0}), ["--policy=slo:target-us=1250"])
        self.assertTrue(all(name in systems.BY_NAME or name in systems.PYTORCH for name in simulated.ALONE))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
