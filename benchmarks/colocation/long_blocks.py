#!/usr/bin/env python3
"""P99 of requests beside training whose blocks are long, by kind of training, block and variant; one table.

Each repetition of a load and block length runs colocation_plain (requests alone, training alone, both on stream
priorities), then colocation once for each kind, with the same arrivals. colocation.py defines the ratios. The script
writes a line as soon as its cell is done. `of the blocks`: the counts of TALLY_STATS over all repetitions.
"""
import argparse
import json
import math
import os
import re

import cores
from colocation import built, layers_of, mean, measurements, median, p99, run_and_hear

# Kinds for the runtime to fall back to if the device or the launch does not take the kind.
FALLBACKS = "persistent,guard,slice"


def counted(text, what):
    found = re.search(rf"(\d+) {what}", text)
    return int(found.group(1)) if found else 0


class Cell:
    """One row of the table: all repetitions of one load, block length and kind."""

    def __init__(self):
        self.alone, self.latency, self.low = [], [], []
        self.ratios, self.best_effort = [], []
        self.counts = {what: 0 for what in ("non-preemptible", "guard", "persistent", "checkpoint", "yields", "blocks saved",
                                             "pauses")}

    def add(self, plain, both, statistics):
        self.alone += plain["alone"]["latency_us"]
        self.low += plain["both"]["latency_us"]
        self.latency += both["latency_us"]
        self.ratios.append(p99(both["latency_us"]) / p99(plain["alone"]["latency_us"]))
        # The rate is 0 if fewer than two steps ended.
        alone = plain["train"]["kernels_per_s"]
        self.best_effort.append(both["kernels_per_s"] / alone / (1 - both["active"]) if alone else math.nan)
        for what in self.counts:
            self.counts[what] += counted(statistics, what)

    def row(self, load, block, kind, rounds):
        alone = p99(self.alone)
        return (f"| {load} | {block:g} us | {rounds} | {kind} | {alone:.0f} us | {p99(self.low) / alone:.1f} | "
                f"{p99(self.latency) / alone:.3f} [{min(self.ratios):.3f}, {max(self.ratios):.3f}] | "
                f"{median(self.latency) / median(self.alone):.3f} | {mean(self.best_effort):.3f} "
                f"[{min(self.best_effort):.3f}, {max(self.best_effort):.3f}] | "
                + ", ".join(f"{count} {what}" for what, count in self.counts.items()) + " |")


def shape(block_us):
    """A training with kernels of at least ten waves, and steps of about 30 ms or of two kernels."""
    waves = max(10, round(4000 / block_us))
    return dict(waves=waves, step=max(2, round(32000 / (waves * block_us))),
                seconds=max(0.5, 12 * waves * block_us / 1e6))


def floor(arguments, serving):
    """Latencies of requests that find none of their data in the L2: a lower bound for every scheduler."""
    ratios, alone, flushed = [], [], []
    for repetition in range(arguments.repetitions):
        phases, _ = run_and_hear(arguments.plain, phases="alone,flushed", seed=repetition + 1, block_rounds=1, **serving)
        alone += phases["alone"]["latency_us"]
        flushed += phases["flushed"]["latency_us"]
        ratios.append(p99(phases["flushed"]["latency_us"]) / p99(phases["alone"]["latency_us"]))
    return f"{p99(flushed) / p99(alone):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", default=built("colocation", "colocation_plain"))
    parser.add_argument("--tally", default=built("colocation", "colocation"))
    parser.add_argument("--loads", default="compute,bandwidth,gemm,attention")
    parser.add_argument("--block-us", default="100,500,5000")
    parser.add_argument("--kinds", default="checkpoint,pause",
                        help="in front of the others; `default`: as it is chosen; `between`: without those inside of blocks")
    parser.add_argument("--request-us", type=float, default=1000)
    parser.add_argument("--form", default="graph", choices=["launches", "graph"])
    parser.add_argument("--load", type=float, default=0.3, help="fraction of the requests' capacity")
    parser.add_argument("--requests", type=int, default=600, help="of a repetition")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--out", help="a file for all figures, as JSON")
    arguments = parser.parse_args()

    cores.keep_apart()
    graph = int(arguments.form == "graph")
    layers = layers_of(arguments.plain, arguments.request_us, graph)
    serving = dict(layers=layers, graph=graph, requests=arguments.requests,
                   period_us=arguments.request_us / arguments.load)
    print(f"L2 flushed between requests, P99 over alone: {floor(arguments, serving)}\n", flush=True)
    print("| training | blocks | turns | kind | alone P99 | low priority | tally P99 | P50 | best effort / (1 - A) "
          "| of the blocks |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    everything = []
    for load in arguments.loads.split(","):
        for block in map(float, arguments.block_us.split(",")):
            cells = {kind: Cell() for kind in arguments.kinds.split(",")}
            rounds = 0
            for repetition in range(arguments.repetitions):
                common = dict(training=load, block_us=block, seed=repetition + 1, **serving, **shape(block))
                # Each kernel of a request then waits for the end of a block.
                few = round(min(40, max(2, 6000 / block)))
                plain, _ = run_and_hear(arguments.plain, phases=f"train,alone,both:{few}", block_rounds=rounds, **common)
                rounds = plain["alone"]["block_rounds"]
                common.update(waves=0, blocks=plain["alone"]["blocks"])
                for kind, cell in cells.items():
                    kinds = {"default": "", "between": FALLBACKS}.get(kind, f"{kind},{FALLBACKS}")
                    environment = dict(os.environ, TALLY_KINDS=kinds, TALLY_STATS="1")
                    tally, statistics = run_and_hear(arguments.tally, environment, phases="both", block_rounds=rounds, **common)
                    cell.add(plain, tally["both"], statistics)
            for kind, cell in cells.items():
                print(cell.row(load, block, kind, rounds), flush=True)
                everything.append(dict(load=load, block_us=block, kind=kind, layers=layers, rounds=rounds,
                                       **vars(cell)))
            if arguments.out:
                with open(arguments.out, "w") as file:
                    json.dump(everything, file)
    print(measurements.said())


if __name__ == "__main__":
    main()
