#!/usr/bin/env python3
"""The predictions of tally-sim for measured pairs, beside the measurements.

  benchmarks/evaluation/simulated.py --out=DIR [--cache=DIR] [--sim=TALLY-SIM] [--keep=DIR]

`--out`: the folder of benchmarks/run. It has PyTorch's models with the systems alone, alone-mps, tally-time-slicing
and tally-mps, and `--cache` is the folder where that run listed the trainings' kernels; or it has CUDA's models with
`alone` and Tally's systems of one process, with any policies (--systems=frontier), and `benchmarks/run --record`
wrote its records to the same folder. A request's service times and arrivals are those of the server alone in the
same repetition, under MPS for tally-mps. The profiler or tally's log listed the training's kernels; Triton's kernels
have variants, with blocks of at most 10 us. Tally's log names the kernels that have variants, and their numbers of
blocks. The script assumes that RESIDENT of these blocks run on an SM at a time, and that the runtime interrupts
blocks longer than the bound inside. The host launches at the pace of the plain training's steps. The simulation gets
no measurement of the pair together: FILLS and SLOWDOWN are the same for all pairs. `--keep` writes the scenarios to a folder.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import types

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [BENCHMARKS, os.path.join(BENCHMARKS, "colocation")]
from colocation import p99
from evaluation import expected, lateness, recording, systems

ALONE = {"tally-time-slicing": "alone", "tally-mps": "alone-mps",
         **{name: "alone" for name in ["tally-everything", *systems.starting("partition-"), *systems.starting("slo-")]}}
BLOCK_US, LAUNCH_US = 10.0, 4.0
RESIDENT = 4  # blocks of a kernel on an SM at a time
VARIANTS = ("persistent", "guard", "slice", "checkpoint", "pause")
# Of requests: best-effort work on a part p of the SMs takes no SMs from them, and slows them down by about SLOWDOWN * p
# (median of twelve pairs on an H200, with p from 1/4 to 3/4).
FILLS, SLOWDOWN = 0.05, 0.6
BETWEEN_US = 1.0  # gap between two kernels of a stream


def of_profiler(listed):
    """The kernels of a step; `listed`: the answer of protocol.py's `kernels`."""
    kernels = listed["kernels"][:len(listed["kernels"]) // listed["steps"]]
    return [{"name": name, "us": took, "variants": expected.yields(name), "block_us": min(BLOCK_US, took)} for name, _, took in kernels]


def of_log(recorded, sms):
    """The same of recording.py's."""
    found = []
    for each in recorded["step"]:
        took = max(each["us"], 0.5)
        waves = max(1.0, each["blocks"] / (sms * RESIDENT))
        block = took / waves if each["kind"] != "checkpoint" else min(took / waves, expected.BOUND_US)
        found.append({"name": each["name"], "us": took, "variants": each["kind"] in VARIANTS, "block_us": block})
    return found


def training(kernels, steps_per_s):
    """A training that keeps the device busy launches fast; otherwise the host's launches fill the step."""
    step = 1e6 / steps_per_s
    busy = sum(each["us"] + BETWEEN_US for each in kernels)
    host = LAUNCH_US if busy > 0.95 * step else step / len(kernels)
    return {"step_us": step, "kernels": [{**each, "host_us": host} for each in kernels]}


def scenario(alone, kernels):
    arrivals = lateness.arrivals(alone)
    services = [max(each, 1) for each in expected.services(arrivals, alone["latency_us"])]
    return {"requests": {"service_us": services, "arrivals_us": arrivals, "fills": FILLS, "slowdown": SLOWDOWN},
            "training": training(kernels, alone["alone_steps_per_s"]), "seconds": (arrivals[-1] + 2e4) / 1e6}


def policy(row):
    """The system's policy as an option of tally-sim; no option for the default."""
    value = dict(systems.BY_NAME[row["system"]].server.environment).get("TALLY_POLICY")
    if value is None:
        return []
    return ["--policy=" + (value if isinstance(value, str) else value.text(types.SimpleNamespace(busy_us=row["busy_us"])))]


def simulate(sim, made, path, options):
    with open(path, "w") as file:
        json.dump(made, file)
    done = subprocess.run([sim, "--json", *options, path], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{sim} {path}: {done.stderr}")
    return json.loads(done.stdout)


def kernels_of(arguments, name):
    """The kernels of the training of that name, or None if no list exists."""
    recorded, listed = recording.place(arguments.out, name), os.path.join(arguments.cache or arguments.out, f"kernels-{name}.json")
    if os.path.exists(recorded):
        with open(recorded) as file, open(os.path.join(arguments.out, "machine.json")) as machine:
            return of_log(json.load(file), json.load(machine)["sms"])
    if os.path.exists(listed):
        with open(listed) as file:
            return of_profiler(json.load(file))
    return None


def rows(arguments, folder):
    with open(os.path.join(arguments.out, "measurements.jsonl")) as file:
        measured = [json.loads(line) for line in file]
    measured = [row for row in measured if row["latency_us"]]
    for row in measured:
        if row["system"] not in ALONE:
            continue
        alone = next((each for each in measured if each["system"] == ALONE[row["system"]] and
                      all(each[key] == row[key] for key in ("pair", "repetition", "load", "arrivals"))), None)
        kernels = kernels_of(arguments, row["pair"].split("/")[1])
        if not alone or not kernels:
            continue
        name = f"{row['pair'].replace('/', '-')}-{row['system']}-{row['repetition']}.json"
        said = simulate(arguments.sim, scenario(alone, kernels), os.path.join(folder, name), policy(row))
        yield (f"{row['pair']} {row['system']}", p99(row["latency_us"]), said["p99_us"],
               row["steps_per_s"] / row["alone_steps_per_s"], said["best_effort"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cache")
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
