"""Records the kernels of a step of a training that runs alone, from tally's own log (TALLY_TRACE), for tally-sim
(simulated.py), which needs no GPU."""
import json
import os
import re
import time

from colocation import mean

from . import systems
from .session import Session

NEAR = 0.2  # largest relative difference between the launches of a step and the mean number of launches of a step


def place(folder, training):
    return os.path.join(folder, f"launches-{training}.json")


def work(trace, begin_us, end_us):
    """The kernels that lanes ran between two instants: (begin, name, microseconds, kind, blocks), in order."""
    lanes = {each["tid"] for each in trace if each["ph"] == "M" and each["name"] == "thread_name" and re.fullmatch(r"lane \d+", each["args"]["name"])}
    found = [(each["ts"], each["name"], each["dur"], each["args"]["kind"], each["args"].get("blocks", 0)) for each in trace
             if each["ph"] == "X" and each["tid"] in lanes and each["name"] != "batch" and begin_us <= each["ts"] < end_us]
    return sorted(found, key=lambda each: each[0])


def step(launches, steps):
    """The launches of one step: the sequence of launches repeats itself after this number. Times are means over all
    steps."""
    shapes = [(name, kind, blocks) for _, name, _, kind, blocks in launches]
    about = len(launches) / steps
    for count in sorted(range(max(1, int(about * (1 - NEAR))), int(about * (1 + NEAR)) + 2), key=lambda count: abs(count - about)):
        if 2 * count <= len(shapes) and [name for name, _, _ in shapes[:-count]] == [name for name, _, _ in shapes[count:]]:
            # The runtime may still try kinds in the first steps.
            return [{"name": name, "kind": kind, "blocks": blocks, "us": mean([took for _, _, took, _, _ in launches[i % count::count]])}
                    for i, (name, kind, blocks) in enumerate(shapes[-count:], len(shapes) - count)]
    raise ValueError(f"{len(launches)} launches in {steps:.1f} steps: no step repeats itself")


def record(arguments, pair, folder):
    """Writes the launches of the pair's training into `folder`."""
    system = arguments.models.here(systems.BY_NAME["tally-traced"])
    with Session(arguments, pair, [system], arguments.gpus[0]) as session:
        process, _ = session.parts(system)
        # The runtime first gets as much time to learn from the launches.
        begin = process.ask("train")["now"] + int(arguments.seconds * 1e9)
        end = begin + int(arguments.seconds * 1e9)
        time.sleep(2 * arguments.seconds)
        stopped = session.stopped(process, begin, end)
        session.end()
        with open(os.path.join(session.folder, system.log)) as file:
            trace = json.load(file)["traceEvents"]
    found = step(work(trace, begin / 1000, end / 1000), stopped["steps_per_s"] * arguments.seconds)
    with open(place(folder, pair.training), "w") as file:
        json.dump({"training": pair.training, "steps_per_s": stopped["steps_per_s"], "step": found}, file, indent=1)
    return f"{pair.training}: {len(found)} launches a step, {sum(each['us'] for each in found):.0f} us of {1e6 / stopped['steps_per_s']:.0f}"
