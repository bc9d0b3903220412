#!/usr/bin/env python3
"""What tally-sim says of pairs that were measured, beside what was measured.

  benchmarks/evaluation/simulated.py --out=DIR --cache=DIR [--sim=TALLY-SIM] [--keep=DIR]

`--out`: of benchmarks/run --models=pytorch, with the systems alone, alone-mps, tally-time-slicing and tally-mps; `--cache`: where that
run has listed the trainings' kernels. A request's service times and arrivals are those of the server alone in the same repetition,
under MPS for tally-mps. The training is what the profiler has listed; Triton's kernels have variants, of blocks of at most 10 us. The
host launches as fast as the plain training's steps say. Nothing that was measured with both is given to the simulation.
`--keep` writes the scenarios there.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [BENCHMARKS, os.path.join(BENCHMARKS, "colocation")]
from colocation import p99
from evaluation import expected, lateness

ALONE = {"tally-time-slicing": "alone", "tally-mps": "alone-mps"}
BLOCK_US, LAUNCH_US = 10.0, 4.0
BETWEEN_US = 1.0  # from one kernel of a stream to the next


def training(listed, steps_per_s):
    """`listed`: of protocol.py's `kernels`. A training that keeps the device busy launches fast; else the host's launches take the step."""
    count = len(listed["kernels"]) // listed["steps"]
    kernels = listed["kernels"][:count]
    step = 1e6 / steps_per_s
    busy = sum(took + BETWEEN_US for _, _, took in kernels)
    host = LAUNCH_US if busy > 0.95 * step else step / count
    return {"step_us": step, "kernels": [
        {"name": name, "us": took, "host_us": host, "variants": expected.yields(name), "block_us": min(BLOCK_US, took)}
        for name, _, took in kernels]}


def scenario(alone, listed):
    arrivals = lateness.arrivals(alone)
    return {"requests": {"service_us": [max(each, 1) for each in expected.services(arrivals, alone["latency_us"])], "arrivals_us": arrivals},
            "training": training(listed, alone["alone_steps_per_s"]), "seconds": (arrivals[-1] + 2e4) / 1e6}


def simulate(sim, made, path):
    with open(path, "w") as file:
        json.dump(made, file)
    done = subprocess.run([sim, "--json", path], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{sim} {path}: {done.stderr}")
    return json.loads(done.stdout)


def rows(arguments, folder):
    with open(os.path.join(arguments.out, "measurements.jsonl")) as file:
        measured = [json.loads(line) for line in file]
    measured = [row for row in measured if row["latency_us"]]
    for row in measured:
        if row["system"] not in ALONE:
            continue
        alone = next((each for each in measured if each["system"] == ALONE[row["system"]] and
                      all(each[key] == row[key] for key in ("pair", "repetition", "load", "arrivals"))), None)
        path = os.path.join(arguments.cache, f"kernels-{row['pair'].split('/')[1]}.json")
        if not alone or not os.path.exists(path):
            continue
        with open(path) as file:
            listed = json.load(file)
        name = f"{row['pair'].replace('/', '-')}-{row['system']}-{row['repetition']}.json"
        said = simulate(arguments.sim, scenario(alone, listed), os.path.join(folder, name))
        yield (f"{row['pair']} {row['system']}", p99(row["latency_us"]), said["p99_us"],
               row["steps_per_s"] / row["alone_steps_per_s"], said["best_effort"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--sim", default=os.path.join(BENCHMARKS, "..", "build", "tools", "tally-sim", "tally-sim"))
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        print(f"{'':48} {'P99 us':>8} {'simulated':>9} {'ratio':>6} {'BE':>6} {'simulated':>9} {'ratio':>6}")
        for name, late, said_late, effort, said_effort in rows(arguments, folder):
            print(f"{name:48} {late:8.0f} {said_late:9.0f} {said_late / late:6.2f} {effort:6.3f} {said_effort:9.3f} {said_effort / effort:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
