#!/usr/bin/env python3
"""The loss of an ordinary CUDA program that runs as best-effort work under tally, by the content of its steps; a
table for each mode, and CSV with every repetition.

A cell is a kind of step and a duration in microseconds. Two kernels a step, of half the duration each:

  none, copy, event, both    a copy on the device between them, an event's record behind them; --durations
  pageable-in, -out, pinned-in, -out, host-function    256 KB from or to the host, or a host function, between them; 70
  two-streams    one kernel on each of two streams, which two events order in each step; 70

The duration of the other kinds is that of a block or a kernel:

  long           one kernel of two waves of blocks; 500 and 2000 a block
  graph          a graph of 20 kernels; 5 a kernel
  chain          two kernels and nothing else; 3 a kernel

Steps follow each other without a wait, except in pageable-out; the program waits behind the last step. The modes:

  alone             no other work
  idle              beside a high-priority process that has served one request and is idle
  idle-mps          the same under MPS
  idle-one-process  the same in one process, whose other stream has high priority
  one-process, mps, time-slicing    beside requests of --request-us in an open loop at --load of their capacity
  joins, joins-mps  processes of high priority come and go; for each, the latency of the first request and of the others

Plain and enabled programs are alive together and measured in turn, never at once, with the same number of steps. All
results of the steps have to be the same in both (`digest`). Ratios are of one repetition: the mean, and in brackets
the lowest and highest. Beside requests: best effort over plain alone times 1 - A, the fraction of the time in which
the server served no request; P99 over that of the plain program's requests alone with the same arrivals. Calls: host
time in nanoseconds with few queued steps, medians, plain and enabled.

  benchmarks/ordinary/ordinary.py --modes alone --out alone.csv

`--small` runs few small steps on the emulator, where the relinked program at high priority stands for the plain one
and best-effort work has to yield every 100 us. It checks digests; its times mean nothing.
"""
import argparse
import csv
import dataclasses
import os
import random
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("hooks", "colocation")]
import cores
from colocation import built, mean, median, p99
from two_processes import HIGH, LOW, Ended, Mps, NoMps, Process

STEPS = ("none", "copy", "event", "both")  # of --durations
OTHERS = {"long": (500, 2000), "pageable-in": (70,), "pageable-out": (70,), "pinned-in": (70,), "pinned-out": (70,),
          "host-function": (70,), "two-streams": (70,), "graph": (5,), "chain": (3,)}
JOINED = (("both", 70.0), ("long", 2000.0))  # cells of the modes `joins` without --cells
AHEAD = 0.03  # seconds of steps in the queue while the server serves requests
CALLS = ("launch", "copy", "record", "wait", "host_function", "graph")
COLUMNS = ("mode", "form", "kind", "us", "system", "repetition", "turn", "steps", "steps_per_s", "best_effort", "active",
           "alone_p99_us", "p50_us", "p99_us", "first_us", "most_us", "digest",
           *(f"{call}_{what}_ns" for call in CALLS for what in ("median", "p99")))


@dataclasses.dataclass(frozen=True)
class Mode:
    other: str = ""  # place of the high-priority work: "process", "thread"
    mps: bool = False
    does: str = "rests"  # or "serves", "joins"


MODES = {"alone": Mode(), "idle": Mode("process"), "idle-mps": Mode("process", True), "idle-one-process": Mode("thread"),
         "one-process": Mode("thread", does="serves"), "mps": Mode("process", True, "serves"),
         "time-slicing": Mode("process", does="serves"), "joins": Mode("process", does="joins"),
         "joins-mps": Mode("process", True, "joins")}


class Pair:
    """The processes of one system in one mode: `worker` makes steps, `server` serves requests; in one process they
    are the same."""

    def __init__(self, measurement, system, mode, service):
        self.measurement, self.system, self.mode, self.service = measurement, system, mode, service
        self.worker = self.start(False)
        self.server = self.worker
        if mode.other == "process" and mode.does != "joins":
            self.server = self.start(True)
        if mode.other and mode.does != "joins":
            self.server.ask("join", *measurement.layers["launches"], 1, 0)

    def start(self, is_server):
        arguments, system = self.measurement.arguments, self.system
        environment = dict(self.service.environment)
        if system == "tally":
            environment["TALLY_ARENA"] = self.measurement.arena
            if self.mode.other != "thread" and not is_server:
                environment["TALLY_CLASS"] = "best-effort"
        elif self.mode.mps:
            environment.update(HIGH if is_server else LOW)
        if arguments.small:
            environment.update({"TALLY_DEVICE": "emulator", "TALLY_EMULATOR_SMS": "3"})
            environment.update({"TALLY_YIELD_EVERY_US": "100"} if system == "tally" else
                               {"TALLY_CLASS": "high", "TALLY_ARENA": "off"})
        plain = "ordinary" if arguments.small else "ordinary_plain"
        return Process([os.path.join(arguments.programs, "ordinary" if system == "tally" else plain)], environment)

    def make(self, cell):
        self.worker.ask("make", cell[0], *self.measurement.shapes[cell])

    def serve(self, form, requests, seed):
        arguments = self.measurement.arguments
        return self.server.ask("serve", *self.measurement.layers[form], int(form == "graph"), requests,
                               arguments.request_us / arguments.load, seed)

    def end(self):
        for process in {self.worker, self.server}:
            process.end()


class Measurement:
    def __init__(self, arguments, folder):
        self.arguments, self.arena = arguments, os.path.join(folder, "arena")
        self.cells, self.rows, self.tries = cells_of(arguments), [], cores.Measurements()
        self.wrong = []  # results that differ from those of the plain program
        self.shapes, self.counts, self.rates, self.layers = {}, {}, {}, {}

    def calibrate(self, cells):
        """Calibrates once, by the plain program: kernels' shapes, the number of steps that take --seconds, the
        layers of a request."""
        small, forms = self.arguments.small, {"launches", *self.arguments.forms}
        if small:
            self.layers = {form: (2, 1) for form in forms}
        plain = Pair(self, "plain", Mode(), NoMps())
        for cell in cells:
            if cell in self.shapes:
                continue
            if small:
                shape = {"blocks": 12, "rounds": 400 if cell[0] == "long" else 8}
            else:
                shape = plain.worker.ask("calibrate", *cell)
            self.shapes[cell] = (shape["blocks"], shape["rounds"])
            plain.make(cell)
            plain.worker.ask("steps", 10)
            self.rates[cell] = plain.worker.ask("steps", 10 if small else 40)["steps_per_s"]
            self.counts[cell] = 20 if small else max(20, round(self.rates[cell] * self.arguments.seconds))
        for form in forms:
            if form not in self.layers:
                probe, rounds = 60, self.arguments.layer_rounds
                each = median(plain.worker.ask("serve", probe, rounds, int(form == "graph"), 200, 2000, 1)["latency_us"]) / probe
                self.layers[form] = (max(1, round(self.arguments.request_us / each)), rounds)
        plain.end()

    def add(self, name, cell, system, repetition, **values):
        row = dict(mode=name, kind=cell[0], us=cell[1], system=system, repetition=repetition, **values)
        self.rows.append(row)
        return row

    def of(self, name, cell, system, form=None):
        return [row for row in self.rows
                if (row["mode"], row["kind"], row["us"], row["system"], row.get("form")) == (name, *cell, system, form)]

    def in_turn(self, repetition):
        systems = self.arguments.systems
        return systems if repetition % 2 else systems[::-1]

    # --- alone, or beside idle high-priority work

    def rest(self, name, pairs, repetition):
        for cell in self.cells:
            for pair in pairs.values():
                pair.make(cell)
                pair.worker.ask("steps", self.counts[cell] // 10 + 1)  # warms up
            digests, found = {}, {}
            for turn in range(self.arguments.turns):
                for system in self.in_turn(repetition):
                    answer = self.tries.of(lambda: pairs[system].worker.ask("steps", self.counts[cell]))
                    digests[system] = answer["digest"]
                    found[system] = self.add(name, cell, system, repetition, turn=turn, steps=self.counts[cell], **answer)
            # The row of the repetition's last turn also has the times of the repetition's calls.
            for system in self.in_turn(repetition):
                count = min(self.arguments.calls, self.counts[cell])
                for call, (middle, high) in pairs[system].worker.ask("calls", count).items():
                    found[system].update({f"{call}_median_ns": middle, f"{call}_p99_ns": high})
            if len(set(digests.values())) > 1:
                self.wrong.append(f"{name}, {said(cell)}: digests differ: {digests}")

    def rest_table(self, name):
        print("| step | plain, steps/s | enabled over plain | calls, ns: plain, enabled |\n|---|---|---|---|")
        for cell in self.cells:
            rows = {system: self.of(name, cell, system) for system in self.arguments.systems}
            rates = {system: by_repetition(rows[system], "steps_per_s") for system in rows}
            ratios = [rates["tally"][each] / rates["plain"][each] for each in rates["plain"]] if len(rates) == 2 else []
            calls = []
            for call in CALLS:
                times = [[row[f"{call}_median_ns"] for row in rows[system] if f"{call}_median_ns" in row] for system in rows]
                if all(times):
                    calls.append(f"{call} " + ", ".join(f"{median(each):.0f}" for each in times))
            print(f"| {said(cell)} | {mean([mean(list(each.values())) for each in list(rates.values())[:1]]):.1f} | "
                  f"{spread(ratios)} | {'; '.join(calls)} |", flush=True)

    # --- beside requests

    def beside(self, pair, cell, form, requests, seed):
        """Serves requests while the worker makes steps. Returns the answers of both."""
        pair.worker.ask("start", max(4, min(256, round(AHEAD * self.rates[cell]))))
        served = pair.serve(form, requests, seed)
        return served, pair.worker.ask("stop", served["begin"], served["end"])

    def serve(self, name, pairs, repetition):
        arguments = self.arguments
        for form in arguments.forms:
            alone = self.tries.of(lambda: pairs["plain"].serve(form, arguments.requests, repetition))["latency_us"]
            for cell in self.cells:
                for pair in pairs.values():
                    pair.make(cell)
                    pair.worker.ask("steps", self.counts[cell] // 10 + 1)
                rate = self.tries.of(lambda: pairs["plain"].worker.ask("steps", self.counts[cell]))["steps_per_s"]
                for system in self.in_turn(repetition):
                    # Plain requests wait for all queued steps, which may take a hundred times as long.
                    requests = min(arguments.requests, arguments.plain_requests if system == "plain" else arguments.requests)
                    served, made = self.tries.of(
                        lambda: self.beside(pairs[system], cell, form, requests, repetition))
                    if arguments.check and system != "plain":
                        self.compare(name, cell, made, pairs["plain"].worker)
                    latency = served["latency_us"]
                    self.add(name, cell, system, repetition, form=form, active=served["active"],
                             best_effort=made["steps_per_s"] / rate / (1 - served["active"]), **made,
                             alone_p99_us=p99(alone[:requests]), p50_us=median(latency), p99_us=p99(latency))

    def compare(self, name, cell, made, worker):
        """Compares the results of steps beside other work with those of as many steps of the plain program alone,
        which has the cell."""
        expected = worker.ask("steps", made["steps"])["digest"]
        if expected != made["digest"]:
            self.wrong.append(f"{name}, {said(cell)}: {made['steps']} steps have the digest {made['digest']}, not {expected}")

    def serve_table(self, name):
        systems = self.arguments.systems
        print("| step | requests | P99 alone, us | " + " | ".join(f"{each}: P99 over alone | best effort" for each in systems)
              + " |\n|---|---|---|" + "---|---|" * len(systems))
        for form in self.arguments.forms:
            for cell in self.cells:
                rows = {system: self.of(name, cell, system, form) for system in systems}
                print(f"| {said(cell)} | {form} | {mean([row['alone_p99_us'] for row in list(rows.values())[-1]]):.0f} | " +
                      " | ".join(f"{spread([row['p99_us'] / row['alone_p99_us'] for row in each])} | "
                                 f"{spread([row['best_effort'] for row in each])}" for each in rows.values()) + " |", flush=True)

    # --- joining and leaving

    def join(self, name, pairs, repetition):
        """In each repetition --joins servers, one after the other, each for a random time."""
        chance = random.Random(repetition)
        for cell in self.join_cells():
            for system in self.in_turn(repetition):
                pair = pairs[system]
                for each in {pair, pairs["plain"]}:
                    each.make(cell)
                self.joins(name, cell, pair, repetition, chance, "-alone")
                pair.worker.ask("start", max(4, min(256, round(AHEAD * self.rates[cell]))))
                self.joins(name, cell, pair, repetition, chance)
                made = pair.worker.ask("stop", 0, 1)
                self.compare(name, cell, made, pairs["plain"].worker)
                print(f"{name}, {said(cell)}, {system}: {made['steps']} steps, digest {made['digest']}", file=sys.stderr, flush=True)

    def joins(self, name, cell, pair, repetition, chance, suffix=""):
        for turn in range(self.arguments.joins):
            time.sleep(chance.uniform(0, 0.2))
            server = pair.start(True)
            requests = chance.randint(2, self.arguments.join_requests)
            first, *others = server.ask("join", *self.layers["launches"], requests, 20000)["latency_us"]
            server.end()
            self.add(name, cell, pair.system + suffix, repetition, turn=turn, first_us=first, p50_us=median(others),
                     p99_us=p99(others), most_us=max(others))

    def join_cells(self):
        return self.cells if self.arguments.cells else JOINED

    def join_table(self, name):
        print("| step | server | first request, us: median, most | following ones: median, most |\n|---|---|---|---|")
        for cell in self.join_cells():
            for system in self.arguments.systems:
                for suffix, beside in (("-alone", "alone"), ("", "beside steps")):
                    rows = self.of(name, cell, system + suffix)
                    first = [row["first_us"] for row in rows]
                    print(f"| {said(cell)} | {system}, {beside} | {median(first):.0f}, {max(first):.0f} | "
                          f"{median([row['p50_us'] for row in rows]):.0f}, {max(row['most_us'] for row in rows):.0f} |", flush=True)

    # --- all

    def measure(self, name):
        mode = MODES[name]
        if mode.mps and not shutil.which("nvidia-cuda-mps-control"):
            print(f"{name}: no nvidia-cuda-mps-control here")
            return
        self.calibrate(self.join_cells() if mode.does == "joins" else self.cells)
        for repetition in range(1, self.arguments.repetitions + 1):
            with Mps() if mode.mps else NoMps() as service:
                # Beside requests, and in comparisons, the plain program gives the reference alone.
                systems = self.arguments.systems if mode.does == "rests" else {"plain", *self.arguments.systems}
                pairs = {system: Pair(self, system, mode, service) for system in systems}
                {"rests": self.rest, "serves": self.serve, "joins": self.join}[mode.does](name, pairs, repetition)
                for pair in pairs.values():
                    pair.end()
            self.save()
            print(f"{name}: repetition {repetition} of {self.arguments.repetitions} done", file=sys.stderr, flush=True)
        print(f"\n{name}:\n")
        {"rests": self.rest_table, "serves": self.serve_table, "joins": self.join_table}[mode.does](name)

    def save(self):
        if self.arguments.out:
            with open(self.arguments.out, "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(self.rows)


def said(cell):
    return f"{cell[0]} {cell[1]:g} us"


def by_repetition(rows, column):
    """The mean over each repetition's turns."""
    return {each: mean([row[column] for row in rows if row["repetition"] == each]) for each in {row["repetition"] for row in rows}}


def spread(values):
    return f"{mean(values):.3f} [{min(values):.3f}, {max(values):.3f}]" if values else "-"


def cells_of(arguments):
    wanted = arguments.cells or [*STEPS, *OTHERS]
    unknown = set(wanted) - {*STEPS, *OTHERS}
    if unknown:
        sys.exit(f"no such cells: {', '.join(sorted(unknown))}; there are {', '.join([*STEPS, *OTHERS])}")
    return [(kind, float(us)) for kind in wanted for us in OTHERS.get(kind, arguments.durations)]


def listed(text):
    return [each for each in text.split(",") if each]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=built("ordinary"), help="folder of ordinary and ordinary_plain")
    parser.add_argument("--modes", type=listed, default=["alone"], help="some of " + ",".join(MODES))
    parser.add_argument("--systems", type=listed, default=["plain", "tally"], help="plain, tally, or both")
    parser.add_argument("--cells", type=listed, default=[], help="kinds of steps; default: all")
    parser.add_argument("--durations", type=listed, default=["20", "70", "500"], help="of " + ", ".join(STEPS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of steps alone, by the plain program's speed")
    parser.add_argument("--turns", type=int, default=2, help="of each system in a repetition of a cell, without requests")
    parser.add_argument("--calls", type=int, default=160, help="steps whose calls are timed in a repetition")
    parser.add_argument("--forms", type=listed, default=["launches", "graph"], help="of requests")
    parser.add_argument("--request-us", type=float, default=1000)
    parser.add_argument("--load", type=float, default=0.3, help="fraction of the requests' capacity")
    parser.add_argument("--layer-rounds", type=int, default=1000, help="of a request's kernels")
    parser.add_argument("--requests", type=int, default=400, help="of a cell in a repetition")
    parser.add_argument("--plain-requests", type=int, default=40, help="the same beside plain steps")
    parser.add_argument("--check", action="store_true", help="digests beside requests too, which takes as long again")
    parser.add_argument("--joins", type=int, default=20, help="servers that come and go, of a cell in a repetition")
    parser.add_argument("--join-requests", type=int, default=20, help="of such a server at most")
    parser.add_argument("--small", action="store_true", help="on the emulator")
    parser.add_argument("--out", help="a file for all repetitions, as CSV")
    arguments = parser.parse_args()
    unknown = set(arguments.modes) - set(MODES)
    if unknown:
        sys.exit(f"no such modes: {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    if not arguments.small:
        cores.keep_apart()
    with tempfile.TemporaryDirectory(prefix="tally-ordinary-") as folder:
        measurement = Measurement(arguments, folder)
        for name in arguments.modes:
            measurement.measure(name)
        print("\n" + measurement.tries.said())
    if measurement.wrong:
        sys.exit("\n".join(measurement.wrong))


if __name__ == "__main__":
    try:
        main()
    except Ended as ended:
        sys.exit(str(ended))
