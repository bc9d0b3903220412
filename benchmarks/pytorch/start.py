#!/usr/bin/env python3
"""The cost of `tally run` for a PyTorch program's start: seconds until its first results, and memory of the GPU.

  benchmarks/pytorch/start.py [--launcher=TALLY] [--repetitions=N] [--out=DIR]

The script needs a GPU without other work: the memory of a program is the decrease of the GPU's free memory. It
starts the program anew each time, plainly, under `tally run` and under `tally run --best-effort` in turns. The
program multiplies two matrices and puts one picture through ResNet-50, so that it loads cuBLAS and cuDNN. The table
shows the medians, and the medians of the difference from the plain program in the same repetition, against the
targets (1 s, 200 MB).
"""
import argparse
import json
import os
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from evaluation import models
from colocation import median

COLUMNS = {"plain": None, "tally": [], "tally, best effort": ["--best-effort"]}
TARGETS = {"seconds": 1.0, "memory": 200.0}
PROGRAM = """
import sys, torch
sys.path.append(sys.argv[1])
import models
torch.ones(64, 64, device="cuda").matmul(torch.ones(64, 64, device="cuda")).sum().item()
with torch.inference_mode():
    models.INFERENCE["resnet50"]("real", "cuda", torch.bfloat16)().sum().item()
free, total = torch.cuda.mem_get_info()
print((total - free) / 1e6)
"""


def start(launcher, options):
    """Seconds of the whole program, and MB of the GPU's memory in use at its end."""
    command = [sys.executable, "-c", PROGRAM, os.path.dirname(os.path.abspath(__file__))]
    begin = time.monotonic()
    done = subprocess.run(command if options is None else [launcher, "run", *options, "--", *command], capture_output=True, text=True, timeout=300)
    seconds = time.monotonic() - begin
    if done.returncode:
        raise RuntimeError(f"the program ended with {done.returncode}: {done.stderr}")
    return {"seconds": seconds, "memory": float(done.stdout.split()[-1])}


def text(rows):
    lines = ["| under | seconds | more than plain | MB | more than plain | |", "|---" * 6 + "|"]
    for column in COLUMNS:
        more = {figure: median([row[column][figure] - row["plain"][figure] for row in rows]) for figure in TARGETS}
        missed = [figure for figure, most in TARGETS.items() if more[figure] > most]
        seconds, memory = (median([row[column][figure] for row in rows]) for figure in TARGETS)
        lines.append(f"| {column} | {seconds:.2f} | {more['seconds']:.2f} | {memory:.0f} | {more['memory']:.0f} | "
                     f"{'missed: ' + ', '.join(missed) if missed else ''} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", default=models.launcher_here())
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", help="folder for start.json")
    options = parser.parse_args()
    if not options.launcher:
        parser.error("no tally here: --launcher names it")
    start(options.launcher, None)  # the first start reads the files from the disk
    rows = [{column: start(options.launcher, words) for column, words in COLUMNS.items()} for _ in range(options.repetitions)]
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        with open(os.path.join(options.out, "start.json"), "w") as file:
            json.dump(rows, file, indent=1)
    print(text(rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.SubprocessError) as trouble:
        sys.exit(f"start.py: {trouble}")
