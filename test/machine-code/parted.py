#!/usr/bin/env python3
"""Finds barriers in machine code that only a part of a warp may reach.

  parted.py [options] FILE...

FILE is PTX, which ptxas assembles, a cubin, or the output of `nvdisasm -c` for one (.sass).
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

from graph import Graph
from listing import sections
from parting import Parting

SKIPPED = 77
VARIANT = re.compile(r"(.*)\$tally_(slice|guard_resume|guard|persistent|pause|checkpoint)")


class Kernel:
    def __init__(self, name, barriers, parted, unknown):
        self.name, self.barriers, self.parted, self.unknown = name, barriers, parted, unknown


def check(section, rows=False):
    if not any(each.opcode == "BAR" for each in section.instructions):
        return Kernel(section.name, 0, [], [])
    parting = Parting(Graph(section), rows)
    lines = {False: [], True: []}
    for finding in parting.findings():
        sure = [each for each, unknown in finding.causes.values() if not unknown]
        causes = sure or [each for each, _ in finding.causes.values()]
        said = ", ".join(f"{each.text} at {each.address:#x}" for each in causes[:3]) + (f" and {len(causes) - 3} more" if len(causes) > 3 else "")
        way = " ".join(f"{each:#x}" for each in finding.path[:12])
        lines[not sure].append(f"{finding.barrier.text} at {finding.barrier.address:#x}: {said}; by {way}")
    return Kernel(section.name, len(parting.barriers()), lines[False], lines[True])


def kernels_of_rows(text):
    """Entries of PTX in whose blocks all threads of a warp have the same %tid.x / 32: blocks of one row, or of rows
    of whole warps."""
    found = set()
    for name, directives in re.findall(r"\.entry\s+([\w$%]+)\s*(?:\([^)]*\))?([^{;]*)", text):
        for kind, shape in re.findall(r"\.(reqntid|maxntid)\s+([\d,\s]+)", directives):
            x, y, z = ([int(each) for each in shape.split(",")] + [1, 1])[:3]
            if y == z == 1 or kind == "reqntid" and x % 32 == 0:
                found.add(name)
    return found


def listing(path, options):
    """The listing of nvdisasm for the file, or for ptxas's result; and kernels_of_rows, which needs PTX."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".sass"):
        return data.decode(), set()
    rows = set()
    with tempfile.TemporaryDirectory() as folder:
        if not data.startswith(b"\x7fELF"):
            target = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", data.decode(errors="replace"), re.M)
            if not target:
                raise ValueError("neither PTX nor a cubin")
            cubin = os.path.join(folder, "a.cubin")
            run([options.ptxas, "-arch", higher(options.arch, target[1]), path, "-o", cubin])
            path, rows = cubin, kernels_of_rows(data.decode(errors="replace"))
        return run([options.nvdisasm, "-c", path]), rows


def higher(arch, target):
    """The architecture to assemble for: the module's own one if that is a special one or a higher one."""
    number = lambda name: int(re.sub(r"\D", "", name))
    return target if target[-1] in "af" or number(target) > number(arch) else arch


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{os.path.basename(command[0])}: {(done.stderr or done.stdout).strip().splitlines()[:1]}")
    return done.stdout


def check_file(path, options):
    try:
        text, rows = listing(path, options)
        return path, [check(each, each.name in rows) for each in sections(text) if each.instructions], None
    except (ValueError, OSError) as error:
        return path, [], str(error)


def report(path, kernels, options):
    """Prints the findings and counts them; with --added, a variant may have as many as its kernel."""
    known = {each.name: each for each in kernels}
    parted = unknown = 0
    for kernel in kernels:
        variant = VARIANT.fullmatch(kernel.name)
        if options.added and not variant:
            continue
        user = known.get(variant[1]) if options.added else None
        for kind, found, before in (("parted", kernel.parted, user.parted if user else []),
                                    ("not known", kernel.unknown, user.unknown if user else [])):
            if len(found) <= len(before):
                continue
            for line in found:
                print(f"{path}: {kernel.name}: {kind}: {line}", flush=True)
            if kind == "parted":
                parted += len(found)
            else:
                unknown += len(found)
    return parted, unknown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog=f"Exit: 0 none is parted, 1 some are, 2 wrong input, {SKIPPED} no nvdisasm or ptxas.")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--added", action="store_true", help="of variants alone, those that have more of them than the user's kernel in the file")
    parser.add_argument("--arch", default="sm_90", help="what PTX is assembled for at least (default: %(default)s)")
    parser.add_argument("--nvdisasm", default=os.environ.get("NVDISASM") or shutil.which("nvdisasm"), help="default: $NVDISASM, then PATH")
    parser.add_argument("--ptxas", default=os.environ.get("PTXAS") or shutil.which("ptxas"), help="default: $PTXAS, then PATH")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if not options.nvdisasm and not all(each.endswith(".sass") for each in options.files):
        print("no nvdisasm", file=sys.stderr)
        return SKIPPED
    if not options.ptxas and any(each.endswith(".ptx") for each in options.files):
        print("no ptxas", file=sys.stderr)
        return SKIPPED
    kernels = barriers = parted = unknown = 0
    failed = False
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for path, found, error in pool.map(check_file, options.files, [options] * len(options.files)):
            if error:
                print(f"{path}: error: {error}", file=sys.stderr)
                failed = True
            more = report(path, found, options)
            parted, unknown = parted + more[0], unknown + more[1]
            kernels += len(found)
            barriers += sum(each.barriers for each in found)
    print(f"{kernels} kernels, {barriers} barriers, {parted} parted, {unknown} not known")
    return 2 if failed else 1 if parted else 0


if __name__ == "__main__":
    sys.exit(main())
