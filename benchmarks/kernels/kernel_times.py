#!/usr/bin/env python3
"""The cost of each kind of variant for the kernels of any program, on a GPU, while no request asks them to yield.

  benchmarks/kernels/kernel_times.py PLAIN TALLY [ARGUMENT...]
  benchmarks/kernels/kernel_times.py --programs=FILE          # a line for each program: PLAIN TALLY ARGUMENT...

PLAIN is the unchanged program, TALLY the same program relinked (docs/guide/relink.md). They run in turns, TALLY as
best effort once for each of --kinds. CUPTI times each kernel (kernel_times.cpp). The script compares launches in
their order, the n-th of TALLY with the n-th of PLAIN. It names and leaves out a kernel with different numbers of
launches in the two programs, and a kernel whose plain runs differ by more than --spread. Times are medians over all
launches of a shape; a ratio is the variant's time over that of the user's kernel.
"""

import argparse
import collections
import glob
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("slice", "guard", "persistent", "pause", "checkpoint")
TARGET = 1.04  # of pause and checkpoint

Launch = collections.namedtuple("Launch", "kernel kind grid block shared ns")
Cell = collections.namedtuple("Cell", "program kernel grid block kind count plain_us spread ratio")


def parse(lines):
    """The launches of one process, in their order. Raises ValueError if CUPTI has dropped some."""
    found = []
    for line in lines:
        fields = line.rstrip("\n").split(",", 9)
        if fields[0] == "dropped":
            raise ValueError(f"CUPTI dropped {fields[1]} records")
        begin, end, gx, gy, gz, bx, by, bz, shared = (int(field) for field in fields[:9])
        kernel, _, variant = fields[9].partition("$tally_")
        kind = variant.removesuffix("_resume")
        found.append((begin, Launch(kernel, kind, (gx, gy, gz), (bx, by, bz), shared, end - begin)))
    return [launch for _, launch in sorted(found, key=lambda each: each[0])]


def by_kernel(launches):
    found = collections.defaultdict(list)
    for each in launches:
        found[each.kernel].append(each)
    return found


def compare(program, plain, runs, least_us, spread):
    """`plain`: the launches of each plain run; `runs`: by kind, those of each run of the kind. Returns the cells,
    and the omitted kernels with the reasons."""
    cells, left_out = [], []
    users = [by_kernel(run) for run in plain]
    for kind, of_kind in runs.items():
        variants = [by_kernel(run) for run in of_kind]
        for kernel, first in users[0].items():
            if not any(each.kind == kind for run in variants for each in run[kernel]):
                continue
            if any(len(run[kernel]) != len(first) for run in users + variants):
                counts = "/".join(str(len(run[kernel])) for run in users + variants)
                left_out.append(f"{program}: {kernel}, {kind}: launches {counts}")
                continue
            if any(each.block != user.block for run in variants for each, user in zip(run[kernel], first)):
                left_out.append(f"{program}: {kernel}, {kind}: launches come in another order")
                continue
            shapes = collections.defaultdict(list)
            for place, user in enumerate(first):
                shapes[user.grid, user.block, user.shared].append(place)
            for (grid, block, _), places in shapes.items():
                through = [place for place in places if all(run[kernel][place].kind == kind for run in variants)]
                if not through:
                    continue
                medians = [statistics.median(run[kernel][place].ns for place in through) for run in users]
                time = statistics.median(medians)
                if time < least_us * 1000:
                    continue
                apart = max(medians) / min(medians) - 1
                if apart > spread:
                    left_out.append(f"{program}: {kernel} {grid} {block}: plain runs {apart:.1%} apart")
                    continue
                taken = statistics.median(run[kernel][place].ns for run in variants for place in through)
                cells.append(Cell(program, kernel, grid, block, kind, len(through), time / 1000, apart, taken / time))
    return cells, left_out


def summary(cells):
    """By kind: the number of cells, the median, mean and maximum of their ratios, and the number above the target."""
    found = collections.defaultdict(list)
    for cell in cells:
        found[cell.kind].append(cell.ratio)
    return {kind: (len(ratios), statistics.median(ratios), statistics.mean(ratios), max(ratios),
                   sum(ratio > TARGET for ratio in ratios)) for kind, ratios in found.items()}


def launches_of(command, library, settings, limit):
    """The launches of a program's run, in all of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "times")
        environment = dict(os.environ, CUDA_INJECTION64_PATH=library, KERNEL_TIMES_FILE=path, **settings)
        subprocess.run(command, env=environment, check=True, timeout=limit, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        files = glob.glob(path + ".*")
        if not files:
            raise ValueError("no kernel was timed: was the library loaded?")
        if len(files) > 1:
            raise ValueError("more than one process has used the GPU")
        with open(files[0], encoding="utf-8", errors="replace") as file:
            return parse(file)


def measure(command, options):
    """The launches of the plain program by run, and by kind those of the relinked program."""
    plain_program, tally_program, *arguments = command
    plain, runs = [], {kind: [] for kind in options.kinds}
    for _ in range(options.turns):
        plain.append(launches_of([plain_program, *arguments], options.library, {}, options.limit))
        for kind in options.kinds:
            settings = {"TALLY_CLASS": "best-effort", "TALLY_ARENA": "off", "TALLY_RUN_AHEAD_US": "0", "TALLY_KINDS": kind,
                        **options.settings.get(None, {}), **options.settings.get(kind, {})}
            runs[kind].append(launches_of([tally_program, *arguments], options.library, settings, options.limit))
    return plain, runs


def kinds_of(text):
    kinds = text.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]}: there are {', '.join(KINDS)}")
    return kinds


def setting_of(text):
    """The option's kind or None, its name and its value."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text}: [KIND:]NAME=VALUE is expected")
    kind, separator, rest = name.partition(":")
    if not separator:
        return None, name, value
    kinds_of(kind)
    return kind, rest, value


def arguments_from(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="PLAIN TALLY [ARGUMENT...]")
    parser.add_argument("--programs", help="a file with a command a line; # begins a comment")
    parser.add_argument("--kinds", type=kinds_of, default=["persistent", "pause", "checkpoint"])
    parser.add_argument("--set", type=setting_of, action="append", default=[], dest="settings", metavar="[KIND:]NAME=VALUE",
                        help="a setting of tally's more, for one kind or for all, such as pause:TALLY_PAUSE_RESERVE=0: its polls alone")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--least-us", type=float, default=30, help="shorter launches do not count")
    parser.add_argument("--spread", type=float, default=0.02, help="how far plain runs may lie apart")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a run may take")
    parser.add_argument("--csv", help="a file for all cells")
    parser.add_argument("--library", default=os.path.join(HERE, "..", "..", "build", "benchmarks", "kernels",
                                                          "libkernel_times.so"))
    options = parser.parse_args(words)
    if (options.programs is None) == (not options.command):
        parser.error("either PLAIN and TALLY, or --programs")
    if options.command and len(options.command) < 2:
        parser.error("PLAIN and TALLY, the same program without tally and with it")
    if options.turns < 2:
        parser.error("--turns: 2 at least, which say how far plain runs lie apart")
    settings = collections.defaultdict(dict)
    for kind, name, value in options.settings:
        settings[kind][name] = value
    options.settings = settings
    options.library = os.path.abspath(options.library)
    if not os.path.exists(options.library):
        parser.error(f"{options.library} is not there: it is built where CUPTI is found")
    return options


def main():
    options = arguments_from(sys.argv[1:])
    commands = [options.command]
    if options.programs:
        with open(options.programs, encoding="utf-8") as file:
            commands = [words for words in (shlex.split(line, comments=True) for line in file) if words]
    cells, failed = [], 0
    print(f"{'kernel':40} {'grid':>14} {'block':>12} {'kind':>10} {'launches':>8} {'plain us':>9} {'spread':>6} {'ratio':>6}")
    for command in commands:
        program = os.path.basename(command[0])
        try:
            found, left_out = compare(program, *measure(command, options), options.least_us, options.spread)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{program}: {error}", file=sys.stderr)
            continue
        for cell in found:
            print(f"{cell.kernel[:40]:40} {'x'.join(map(str, cell.grid)):>14} {'x'.join(map(str, cell.block)):>12} "
                  f"{cell.kind:>10} {cell.count:8} {cell.plain_us:9.1f} {cell.spread:6.3f} {cell.ratio:6.3f}", flush=True)
        for line in left_out:
            print("left out: " + line)
        cells += found
    for kind, (count, median, mean, most, above) in summary(cells).items():
        print(f"{kind}: {count} launch shapes, median {median:.3f}, mean {mean:.3f}, most {most:.3f}, above {TARGET}: {above}")
    if options.csv:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write(",".join(Cell._fields) + "\n")
            for cell in cells:
                flat = ["x".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in cell]
                file.write(",".join('"' + each.replace('"', '""') + '"' for each in flat) + "\n")
    if failed:
        sys.exit(f"{failed} of {len(commands)} programs could not be measured")


if __name__ == "__main__":
    main()
