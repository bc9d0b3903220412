#!/usr/bin/env python3
"""P99 of requests beside training: alone, on plain stream priorities, under tally; one table.

Each repetition runs colocation_plain and colocation one after the other with the same arrivals, so every ratio is of
one run, over the same requests alone. `alone` is the plain program after a training that has ended: a launch takes
the device longer from the first training kernel on (docs/history/results-2026-11.md). `untrained` is the plain
program before any training. P99s are of all repetitions' requests together; brackets hold the lowest and the highest
of the single repetitions. `late by place` is the time in microseconds by which a request is later than the same
request alone: medians of the requests that come to an idle server, of the first request that waits behind such a
request, of the second, and of all later ones. The later requests and stalls of the host determine the P99. `stalled`
is the part, in thousandths, of the servers' waiting time in which another process had the server's core. `hooks,
alone` is the relinked program without training; `L2 flushed` is a lower bound for every scheduler. Best effort is
training throughput over the throughput alone, divided by 1 - A, the fraction of the time in which the server served
no request; the next column is tally's throughput over the throughput of the low-priority stream, whose requests
wait. If other machines used the CPUs during a run, the script repeats the run (cores.py).
"""
import argparse
import json
import os
import subprocess
import sys

import cores

measurements = cores.Measurements()
HERE = os.path.dirname(os.path.abspath(__file__))


def built(*path):
    """The path of a program, or of a folder of programs, of benchmarks/ in the tree's build folder."""
    return os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "benchmarks", *path)


def run_and_hear(program, environment=None, **options):
    """The program's phases by name, and its standard error."""
    command = [program] + [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]

    def measure():
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: ended with {done.returncode}: {done.stderr}")
        return {phase["phase"]: phase for phase in map(json.loads, done.stdout.splitlines())}, done.stderr

    return measurements.of(measure)


def run(program, environment=None, **options):
    return run_and_hear(program, environment, **options)[0]


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


def p99(values):
    return percentile(values, 0.99)


def median(values):
    return percentile(values, 0.5)


PLACES = ["0", "1", "2", "3+"]  # 0: came to an idle server, 1: the first request that waited behind request 0


def places(arrivals, latency):
    """For each request its place in the server's busy period; one server, in the order of arrival."""
    found, free = [], float("-inf")
    for arrival, took in zip(arrivals, latency):
        found.append(found[-1] + 1 if arrival < free else 0)
        free = arrival + took
    return found


def layers_of(plain, request_us, graph):
    """The number of kernels that make a request of `request_us`, in a program that has trained."""
    probe = 60
    phase = run(plain, phases="train,alone", layers=probe, graph=graph, requests=200,
                period_us=2000, block_rounds=1)["alone"]
    each = median(phase["latency_us"]) / probe
    return max(1, round(request_us / each))


def rounds_of(plain, block_us, **training):
    """The turns of a training block's loop that take `block_us`."""
    return run(plain, phases="untrained", block_us=block_us, requests=1, **training)["untrained"]["block_rounds"]


class Cell:
    """One row of the table: all repetitions of one request length and one kind of training."""

    def __init__(self):
        self.latency = {}
        self.ratios = {}
        self.first = {}
        self.alone = {}  # for the requests of a column, which may be fewer
        self.late = {}  # by place
        self.stalled = {}
        self.best_effort = {"low": [], "tally": []}
        self.raw = {"low": [], "tally": []}

    def add(self, plain, tally):
        columns = {"alone": plain["alone"], "untrained": plain["untrained"], "flushed": plain["flushed"],
                   "low": plain["both"], "hooked": tally["alone"], "tally": tally["both"]}
        for name, phase in columns.items():
            self.latency.setdefault(name, []).extend(phase["latency_us"])
            self.first.setdefault(name, []).extend(phase["first_launch_us"])
            self.stalled.setdefault(name, []).append(phase["stalled"])
            alone = plain["alone"]["latency_us"][:len(phase["latency_us"])]
            self.alone.setdefault(name, []).extend(alone)
            self.ratios.setdefault(name, []).append(p99(phase["latency_us"]) / p99(alone))
            late = self.late.setdefault(name, {})
            for place, took, before in zip(places(phase["arrival_us"], phase["latency_us"]), phase["latency_us"], alone):
                late.setdefault(PLACES[min(place, 3)], []).append(took - before)
        alone = plain["train"]["kernels_per_s"]
        if not alone:
            sys.exit("training alone did not end two steps: it needs more --seconds, or a smaller --step")
        for name in self.best_effort:
            phase = columns[name]
            self.best_effort[name].append(phase["kernels_per_s"] / alone / (1 - phase["active"]))
            self.raw[name].append(phase["kernels_per_s"])

    def ratio(self, name):
        return p99(self.latency[name]) / p99(self.alone[name])

    def lateness(self, name):
        """Microseconds by which a request is later than the same request of `alone`, medians by place."""
        late = self.late[name]
        return ", ".join(f"{median(late[place]):.0f}" if place in late else "-" for place in PLACES)

    def over_low(self):
        """Tally's training throughput over the low-priority stream's; a dash if the latter ended no step."""
        low = mean(self.raw["low"])
        return f"{mean(self.raw['tally']) / low:.3f}" if low else "-"

    def spread(self, name):
        return f"{self.ratio(name):.2f} [{min(self.ratios[name]):.2f}, {max(self.ratios[name]):.2f}]"


def mean(values):
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", default=built("colocation", "colocation_plain"))
    parser.add_argument("--tally", default=built("colocation", "colocation"))
    parser.add_argument("--request-us", default="200,1000,5000")
    parser.add_argument("--block-us", default="10,50")
    parser.add_argument("--forms", default="launches,graph")
    parser.add_argument("--load", type=float, default=0.3, help="fraction of the requests' capacity")
    parser.add_argument("--requests", type=int, default=400, help="of a repetition")
    parser.add_argument("--fewer", type=int, default=100,
                        help="requests of a repetition where tally's are not compared: low priority, and --controls")
    parser.add_argument("--controls", type=int,
                        help="requests of a repetition untrained, with the L2 flushed, and with hooks alone, "
                        "in place of --fewer")
    parser.add_argument("--seconds", type=float, default=0.5, help="of training alone")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--training", default="compute", choices=["compute", "bandwidth", "gemm", "attention"])
    parser.add_argument("--blocks", type=int, default=67584, help="of a training kernel")
    parser.add_argument("--rounds", type=int, default=0, help="of a training block's loop, in place of --block-us")
    parser.add_argument("--step", type=int, default=4, help="training kernels between synchronisations")
    parser.add_argument("--out", help="a file for all figures, as JSON")
    arguments = parser.parse_args()

    cores.keep_apart()
    print("| request | form | blocks | alone P99 | untrained, its P50 | L2 flushed | low priority | hooks, alone "
          "| their P50 | late by place | tally | tally P50 | late by place | best effort | over low priority's "
          "| first launch P50, us: alone, low priority, tally | stalled: alone, hooks alone, tally |")
    print("|---" * 17 + "|", flush=True)
    everything = []
    for form in arguments.forms.split(","):
        graph = int(form == "graph")
        for request in map(float, arguments.request_us.split(",")):
            layers = layers_of(arguments.plain, request, graph)
            for block in map(float, arguments.block_us.split(",")):
                cell = Cell()
                training = dict(training=arguments.training, blocks=arguments.blocks)
                rounds = arguments.rounds or rounds_of(arguments.plain, block, **training)
                for repetition in range(arguments.repetitions):
                    common = dict(layers=layers, graph=graph, requests=arguments.requests,
                                  period_us=request / arguments.load, step=arguments.step, block_rounds=rounds,
                                  seconds=arguments.seconds, seed=repetition + 1, **training)
                    few = arguments.fewer
                    controls = arguments.controls or few
                    phases = f"untrained:{controls},train,alone,flushed:{controls},both:{few}"
                    plain = run(arguments.plain, phases=phases, **common)
                    tally = run(arguments.tally, phases=f"train,alone:{controls},both", **common)
                    cell.add(plain, tally)
                alone = p99(cell.latency["alone"])
                half = {name: median(cell.latency[name]) / median(cell.alone[name])
                        for name in ("untrained", "hooked", "tally")}
                print(f"| {request / 1000:g} ms | {form} | {block:g} us | {alone:.0f} us | "
                      f"{cell.spread('untrained')}, {half['untrained']:.2f} | {cell.ratio('flushed'):.2f} | "
                      f"{cell.spread('low')} | {cell.spread('hooked')} | "
                      f"{half['hooked']:.2f} | {cell.lateness('hooked')} | "
                      f"{cell.spread('tally')} | {half['tally']:.2f} | {cell.lateness('tally')} | "
                      f"{mean(cell.best_effort['tally']):.3f} | "
                      f"{cell.over_low()} | "
                      + ", ".join(f"{median(cell.first[name]):.1f}" for name in ("alone", "low", "tally")) + " | "
                      + ", ".join(f"{1000 * mean(cell.stalled[name]):.1f}" for name in ("alone", "hooked", "tally"))
                      + " |", flush=True)
                everything.append(dict(request_us=request, form=form, block_us=block, layers=layers,
                                       latency=cell.latency, first=cell.first, stalled=cell.stalled,
                                       best_effort=cell.best_effort, kernels_per_s=cell.raw))
                if arguments.out:
                    with open(arguments.out, "w") as file:
                        json.dump(everything, file)
    print(measurements.said())


if __name__ == "__main__":
    main()
