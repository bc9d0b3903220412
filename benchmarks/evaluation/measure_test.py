#!/usr/bin/env python3
"""Tests benchmarks/measure with parts of its own, and checks that the programs of the real parts are in the tree."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOADER = importlib.machinery.SourceFileLoader("measure", os.path.join(TOP, "benchmarks", "measure"))
measure = importlib.util.module_from_spec(importlib.util.spec_from_loader("measure", LOADER))
LOADER.exec_module(measure)
REAL = measure.PARTS
from colocation import built  # measure has added the folder


class Measure(unittest.TestCase):
    def measured(self, parts, *options):
        """The exit status, the printed lines, and the text of each file of the folder."""
        measure.PARTS = parts
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            sys.argv = ["measure", f"--out={out}", f"--archive={folder}/out.tar.xz", *options, *parts]
            with contextlib.redirect_stdout(io.StringIO()) as said:
                status = measure.main()
            with tarfile.open(f"{folder}/out.tar.xz") as archive:
                texts = {each.name: archive.extractfile(each).read().decode() for each in archive.getmembers() if each.isfile()}
        return status, said.getvalue().splitlines(), texts

    def test_each_command_has_its_own_folder(self):
        status, lines, texts = self.measured({"one": ["sh -c 'echo {repetitions} > {out}/figures'", "echo second"], "two": ["echo third"]},
                                             "--repetitions=3")
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["one: 0 s", "two: 0 s"])
        self.assertEqual(texts["results/one/figures"], "3\n")
        self.assertTrue(texts["results/one.txt"].endswith("$ echo second\nsecond\n"), texts["results/one.txt"])
        self.assertEqual(texts["results/two.txt"], "$ echo third\nthird\n")

    def test_a_failure_is_named_and_the_next_part_is_measured(self):
        status, lines, texts = self.measured({"bad": ["sh -c 'echo why; exit 3'", "echo never"], "missing": ["build/none"], "good": ["true"]})
        self.assertEqual(status, 1)
        self.assertIn("exit status 3; what it said is in bad.txt", lines[0])
        self.assertIn("build/none", lines[1])
        self.assertEqual(lines[2], "good: 0 s")
        self.assertIn("why", texts["results/bad.txt"])
        self.assertNotIn("never", texts["results/bad.txt"])

    def test_the_end_of_the_time_ends_a_part(self):
        begun = time.monotonic()
        status, lines, texts = self.measured({"slow": ["sh -c 'echo begun; exec sleep 100'"], "next": ["true"]}, "--minutes=0.02")
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(status, 1)
        self.assertIn("ended before all of it was measured", lines[0])
        self.assertIn("not measured: no time was left", lines[1])
        self.assertIn("begun", texts["results/slow.txt"])

    def test_the_same_command_again_goes_on(self):
        measure.PARTS = {"part": ["echo first", "sh -c 'test -e {out}/there'", "echo third"]}
        with tempfile.TemporaryDirectory() as out:
            said = []
            for _ in range(3):
                sys.argv = ["measure", f"--out={out}", "part"]
                with contextlib.redirect_stdout(io.StringIO()) as lines:
                    said.append((measure.main(), lines.getvalue().partition("; ")[2][:6]))
                with open(os.path.join(out, "part", "there"), "w"):
                    pass
            with open(os.path.join(out, "part.txt")) as file:
                text = file.read()
        self.assertEqual(said, [(1, "failed"), (0, ""), (0, "")])
        self.assertEqual((text.count("$ echo first"), text.count("$ sh"), text.count("$ echo third")), (1, 2, 1))

    def test_what_goes_on_later_is_not_complete(self):
        status, lines, _ = self.measured({"long": ["sh -c 'exit 75'"]})
        self.assertEqual((status, lines), (1, ["long: 0 s; ended before all of it was measured"]))

    def test_the_programs_are_there(self):
        for part, commands in REAL.items():
            for command in commands:
                program = command.removeprefix("mps: ").split()[0]
                built = os.path.join("benchmarks", *program.split("/")[2:-1], "CMakeLists.txt")
                there = os.path.join(TOP, built if program.startswith("build/") else program)
                self.assertTrue(os.path.exists(there), f"{part}: {program}")

    @unittest.skipUnless(os.path.isdir(built()), "the tree is built elsewhere")
    def test_scripts_find_their_programs(self):
        # Without a GPU a program ends as soon as it begins.
        without = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        for part in "colocation", "long-blocks", "two-processes", "ordinary":
            done = subprocess.run(shlex.split(REAL[part][0]), cwd=TOP, env=without, capture_output=True, text=True, timeout=120)
            self.assertNotIn("No such file", done.stderr, part)
            self.assertNotEqual(done.returncode, 0, part)


if __name__ == "__main__":
    unittest.main()
