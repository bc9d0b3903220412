"""The ratios that kernel_times.py computes from the times of launches, by numbers worked out by hand."""

import contextlib
import io
import os
import stat
import subprocess
import sys
import tempfile
import unittest

import kernel_times
from kernel_times import compare, parse, summary

BLOCK = (128, 1, 1)


def line(begin, ns, name, grid=(10, 1, 1), block=BLOCK, shared=0):
    return ",".join(map(str, (begin, begin + ns, *grid, *block, shared, name)))


def run(*launches):
    """(ns, name[, grid[, block]]) one behind the other."""
    return parse([line(1000 * place, ns, *rest) for place, (ns, *rest) in enumerate(launches)])


class Parsing(unittest.TestCase):
    def test_order_kinds_and_names(self):
        found = parse([line(500, 7, "b<int, 2>(float*)"), line(100, 5, "a$tally_guard_resume"), line(300, 6, "a$tally_pause")])
        self.assertEqual([(each.kernel, each.kind, each.ns) for each in found],
                         [("a", "guard", 5), ("a", "pause", 6), ("b<int, 2>(float*)", "", 7)])
        self.assertEqual(found[0].block, BLOCK)

    def test_what_was_dropped_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "dropped 3 records"):
            parse([line(0, 5, "a"), "dropped,3"])


class Comparing(unittest.TestCase):
    def test_ratio_of_medians_by_shape(self):
        wide = (20, 1, 1)
        plain = [run((100, "a"), (200, "a", wide), (110, "a")), run((101, "a"), (202, "a", wide), (109, "a"))]
        tally = [run((126, "a$tally_pause", (4, 1, 1)), (303, "a$tally_pause", (4, 1, 1)), (84, "a$tally_pause", (4, 1, 1)))]
        cells, left_out = compare("p", plain, {"pause": tally}, 0, 0.02)
        self.assertEqual(left_out, [])
        by_grid = {cell.grid: cell for cell in cells}
        self.assertEqual(set(by_grid), {(10, 1, 1), wide})
        self.assertEqual(by_grid[10, 1, 1].count, 2)
        self.assertAlmostEqual(by_grid[10, 1, 1].ratio, 105 / 105)  # medians: 105 of 100, 110 and of 101, 109
        self.assertAlmostEqual(by_grid[wide].ratio, 303 / 201)
        self.assertAlmostEqual(by_grid[wide].spread, 0.01)

    def test_short_ones_do_not_count(self):
        plain = [run((29_999, "a")), run((29_999, "a"))]
        self.assertEqual(compare("p", plain, {"pause": [run((40_000, "a$tally_pause"))]}, 30, 0.02), ([], []))
        plain = [run((30_000, "a")), run((30_000, "a"))]
        cells, _ = compare("p", plain, {"pause": [run((40_000, "a$tally_pause"))]}, 30, 0.02)
        self.assertAlmostEqual(cells[0].ratio, 4 / 3)

    def test_kernels_that_have_not_the_kind(self):
        plain = [run((100, "a"), (100, "b")), run((100, "a"), (100, "b"))]
        tally = [run((120, "a$tally_pause"), (100, "b"))]
        cells, left_out = compare("p", plain, {"pause": tally, "checkpoint": tally}, 0, 0.02)
        self.assertEqual([(cell.kernel, cell.kind) for cell in cells], [("a", "pause")])
        self.assertEqual(left_out, [])

    def test_launches_of_another_kind_between(self):
        plain = [run((100, "a"), (100, "a")), run((100, "a"), (100, "a"))]
        tally = [run((150, "a"), (120, "a$tally_pause"))]
        cells, _ = compare("p", plain, {"pause": tally}, 0, 0.02)
        self.assertEqual([(cell.count, cell.ratio) for cell in cells], [(1, 1.2)])

    def test_other_counts_and_orders_are_left_out(self):
        plain = [run((100, "a")), run((100, "a"))]
        tally = [run((60, "a$tally_guard"), (60, "a$tally_guard_resume"))]
        cells, left_out = compare("p", plain, {"guard": tally}, 0, 0.02)
        self.assertEqual((cells, left_out), ([], ["p: a, guard: launches 1/1/2"]))
        other = [run((60, "a$tally_guard", (10, 1, 1), (64, 1, 1)))]
        cells, left_out = compare("p", plain, {"guard": other}, 0, 0.02)
        self.assertEqual((cells, left_out), ([], ["p: a, guard: launches come in another order"]))

    def test_plain_runs_apart_are_left_out(self):
        plain = [run((100, "a")), run((103, "a"))]
        cells, left_out = compare("p", plain, {"pause": [run((100, "a$tally_pause"))]}, 0, 0.02)
        self.assertEqual((cells, left_out), ([], ["p: a (10, 1, 1) (128, 1, 1): plain runs 3.0% apart"]))

    def test_summary(self):
        plain = [run((100, "a"), (100, "b"), (100, "c")) for _ in range(2)]
        tally = [run((100, "a$tally_pause"), (104, "b$tally_pause"), (120, "c$tally_pause"))]
        count, median, mean, most, above = summary(compare("p", plain, {"pause": tally}, 0, 0.02)[0])["pause"]
        self.assertEqual((count, median, most, above), (3, 1.04, 1.2, 1))
        self.assertAlmostEqual(mean, 1.08)
        self.assertEqual(summary([]), {})


class Running(unittest.TestCase):
    """Runs programs that write files in the library's format."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.library = self.path("library.so")
        open(self.library, "w").close()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def program(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path(name), stat.S_IRWXU)
        return self.path(name)

    def called(self, *words):
        output = subprocess.run([sys.executable, kernel_times.__file__, "--library", self.library, *words],
                                capture_output=True, text=True)
        return output.returncode, output.stdout, output.stderr

    def test_whole(self):
        plain = self.program("plain", f'[ -z "$TALLY_CLASS" ] && echo "{line(0, 50000, "a")}" > "$KERNEL_TIMES_FILE.1"\n')
        tally = self.program("tally", f'''case "$TALLY_CLASS $TALLY_KINDS $TALLY_PAUSE_RESERVE $TALLY_BOUND_US $1" in
"best-effort pause 0 30 x" | "best-effort checkpoint  30 x") ;;
*) exit 1 ;;
esac
echo "{line(0, 60000, "a")}" | sed "s/a$/a\\$tally_$TALLY_KINDS/" > "$KERNEL_TIMES_FILE.1"
''')
        status, output, errors = self.called("--kinds=pause,checkpoint", "--set", "pause:TALLY_PAUSE_RESERVE=0",
                                             "--set", "TALLY_BOUND_US=30", "--csv", self.path("cells.csv"), plain, tally, "x")
        self.assertEqual((status, errors), (0, ""))
        for kind in ("pause", "checkpoint"):
            self.assertIn(f"{kind}: 1 launch shapes, median 1.200, mean 1.200, most 1.200, above 1.04: 1\n", output)
        with open(self.path("cells.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[1], '"plain","a","10x1x1","128x1x1","pause","1","50.0","0.0","1.2"')

    def test_a_program_that_fails_costs_that_program(self):
        good = self.program("good", f'echo "{line(0, 50000, "a")}" > "$KERNEL_TIMES_FILE.1"\n')
        bad = self.program("bad", "exit 3\n")
        silent = self.program("silent", "exit 0\n")
        with open(self.path("list"), "w", encoding="utf-8") as file:
            file.write(f"# programs\n{bad} {bad}\n{silent} {silent}\n\n{good} {good} x\n")
        status, output, errors = self.called("--kinds=pause", "--programs", self.path("list"))
        self.assertEqual(status, 1)
        self.assertIn("bad: Command", errors)
        self.assertIn("silent: no kernel was timed", errors)
        self.assertIn("2 of 3 programs could not be measured", errors)
        self.assertNotIn("good", errors)

    def test_wrong_arguments_say_what_is_expected(self):
        for words, expected in (((), "either PLAIN and TALLY"), (("one",), "PLAIN and TALLY, the same program"),
                                (("--kinds=pause,nap", "a", "b"), "nap: there are"), (("--turns=1", "a", "b"), "2 at least"),
                                (("--set", "X", "a", "b"), "NAME=VALUE"),
                                (("--set", "paws:X=1", "a", "b"), "paws: there are"), (("--library=/nowhere", "a", "b"), "is not there")):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                kernel_times.arguments_from(["--library", self.library, *words])
            self.assertIn(expected, said.getvalue())


if __name__ == "__main__":
    unittest.main()
