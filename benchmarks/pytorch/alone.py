#!/usr/bin/env python3
"""The cost of Tally for a PyTorch program that has the GPU to itself: each program plainly and under `tally run`, in
turns.

  benchmarks/pytorch/alone.py --out=DIR [--minutes=M]

Trainings: steps a second under `tally run --best-effort` with no other process, and beside an idle server under
`tally run`, over plain. Requests: P50 and P99 under `tally run` over plain, with the same arrivals. A ratio is of
one repetition, within which the columns take turns. All processes start --starts times, over which the repetitions
are spread. Two processes of one program differ by more than two repetitions of one process, so the table shows the
mean over the starts of their repetitions' means, and its 95 % confidence interval (Student's t). The script compares
losses and answers with those of the plain program. The threads that launch a training's kernels run on the same two
CPUs in all columns. With --control a second plain process takes turns too: its ratio shows how far two equal
processes differ. With --switch there is no plain process: the hooks are off and on in turns in one process, which
shows their cost without what two processes differ by (trainings only). The same command again continues an
interrupted run.
"""
import argparse
import concurrent.futures
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from evaluation import loads, models, prepare
from evaluation.session import Bits, Wrong
from evaluation.systems import ALONE_PROCESS, TALLY_SERVER, best_effort
import cores
from colocation import mean, median, p99
from two_processes import Ended, Mps, NoMps, Process

COLUMNS = {"training": ["plain", "tally", "tally-beside-idle"], "inference": ["plain", "tally"]}
CONTROL = "plain-again"
OFF = "-off"  # with --switch the column of the same process whose hooks are off
PLAIN = "plain", CONTROL
TARGETS = {("tally", "steps"): 0.98, ("tally-beside-idle", "steps"): 0.95, ("tally", "p50"): 1.01, ("tally", "p99"): 1.03}
IDLE = ("inference", "resnet50", "graph")  # the server that does nothing
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def interval(values):
    """The mean, and half the width of its 95 % confidence interval, which is infinite for one value."""
    if len(values) < 2:
        return mean(values), math.inf
    freedom, middle = len(values) - 1, mean(values)
    quantile = T95[freedom - 1] if freedom <= len(T95) else 1.96 + 2.37 / freedom + 2.82 / freedom ** 2
    return middle, quantile * math.sqrt(sum((each - middle) ** 2 for each in values) / freedom / len(values))


def settle(pid, cpus):
    """Puts the threads that launch a training's kernels on two of these CPUs: the program's first thread and autograd's.
    Other machines have the other hardware threads of the cores, so a CPU may be slower than another one by more than
    Tally costs. The other threads may use all of these CPUs."""
    first, second = sorted(cpus)[-2:]
    for name in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{name}/comm") as file:
                is_autograd = file.read().startswith("pt_autograd")
            os.sched_setaffinity(int(name), {first} if int(name) == pid else {second} if is_autograd else cpus)
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended


def process_of(column):
    return column.removesuffix(OFF)


class Programs:
    """The processes of one kind, a column each, kept from one model to the next."""

    def __init__(self, arguments, kind, mps):
        self.arguments, self.kind, self.mps, self.processes, self.loaded, self.said = arguments, kind, mps, {}, {}, []
        self.found = {}  # by column: the answer to the load, for the first call of get()
        self.folder = tempfile.mkdtemp(prefix="tally-benchmark-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.process.kill()
            process.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def role(self, column):
        if column in PLAIN:
            return ALONE_PROCESS
        return best_effort(False) if self.kind == "training" and column != "idle" else TALLY_SERVER

    def load(self, words, columns):
        """Loads the model in the processes of these columns at once, since it takes long to compile. get() loads again
        after a failure, and reports the error."""
        def one(column):
            try:
                self.found[column] = self.get(column, words)[1]
            except (Wrong, Ended):
                self.drop(column)
        with concurrent.futures.ThreadPoolExecutor(len(columns)) as pool:
            list(pool.map(one, {process_of(each) for each in columns}))

    def get(self, column, words):
        """The column's process with that model loaded, and the answer to its load at the first call."""
        column = process_of(column)
        if column not in self.processes:
            role, of = self.role(column), self.arguments.models
            environment = {"TALLY_STATS": "1", **self.mps.environment, **of.environment(role), **dict(role.environment)}
            if column not in PLAIN:
                # The idle server joins the arena of the training that runs beside it.
                environment["TALLY_ARENA"] = os.path.join(self.folder, "idle" if column == "tally-beside-idle" else column)
                os.makedirs(environment["TALLY_ARENA"], mode=0o700, exist_ok=True)
            self.processes[column], self.loaded[column] = Process(of.command(role), environment, of.patience), None
        process, found = self.processes[column], {}
        if self.loaded[column] != words:
            kind, name, *form = words
            found = process.ask(kind, name, self.arguments.size, *form)
            if "error" in found:
                raise Wrong(f"{name}: {found['error']}")
            self.loaded[column] = words
        return process, self.found.pop(column, None) or found

    def drop(self, column):
        column = process_of(column)
        process = self.processes.pop(column, None)
        self.found.pop(column, None)
        if process:
            process.process.kill()
            process.process.wait()
            self.said.append(f"{column}: {process.said()}")

    def end(self):
        for column in list(self.processes):
            self.said.append(f"{column}: {self.processes.pop(column).end()}")


class Measurement:
    def __init__(self, arguments, deadline):
        self.arguments, self.deadline, self.bits, self.service = arguments, deadline, {}, {}
        self.of_start = -(-arguments.repetitions // arguments.starts)  # repetitions
        os.makedirs(arguments.out, exist_ok=True)
        self.path, self.rows = os.path.join(arguments.out, "alone.jsonl"), {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                for row in map(json.loads, file):
                    self.rows[row["name"], row["column"], row["repetition"]] = row

    def add(self, row):
        self.rows[row["name"], row["column"], row["repetition"]] = row
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['name']} {row['column']} repetition {row['repetition']}", file=sys.stderr, flush=True)

    def missing(self, kind, name, repetitions):
        """Incomplete repetitions. The script measures a repetition as a whole, since its ratios belong to it alone."""
        return [each for each in repetitions if any((name, column, each) not in self.rows for column in self.arguments.columns[kind])]

    def start(self, kind, names, repetitions, mps):
        """Measures all models of a kind with one start of processes. Returns whether the time sufficed."""
        waiting = {name: missing for name in names if (missing := self.missing(kind, name, repetitions))}
        if not waiting:
            return True
        with Programs(self.arguments, kind, mps) as programs:
            try:
                if kind == "training":
                    idle, _ = programs.get("idle", IDLE)
                    idle.ask("capacity", 5, 0)
                for name, missing in waiting.items():
                    programs.load(self.words(kind, name), self.turn(kind, self.start_of(missing[0])))
                    self.refer(programs, kind, name)
                    for repetition in missing:
                        if time.monotonic() > self.deadline:
                            return False
                        for column in self.turn(kind, repetition):
                            self.cell(programs, kind, name, column, repetition)
                programs.end()
            finally:
                self.say(programs.said)
        return True

    def turn(self, kind, number):
        """The columns, each of them first in turn."""
        columns = self.arguments.columns[kind]
        first = number % len(columns)
        return columns[first:] + columns[:first]

    def start_of(self, repetition):
        return (repetition - 1) // self.of_start

    @staticmethod
    def words(kind, name):
        """The words of the command that loads the model."""
        model, _, form = name.rpartition("-")
        return (kind, name) if kind == "training" else (kind, model, form)

    def say(self, texts):
        with open(os.path.join(self.arguments.out, "said.txt"), "a") as file:
            file.writelines(f"{each.strip()}\n" for each in texts)

    def cell(self, programs, kind, name, column, repetition):
        row = {"kind": kind, "name": name, "column": column, "repetition": repetition, "start": self.start_of(repetition)}
        measure = self.train if kind == "training" else self.serve
        try:
            found, tried = cores.undisturbed(lambda: measure(programs, name, column, repetition), 1 if self.arguments.size == "small" else cores.TRIES)
            row.update(**found, **tried)
        except (Wrong, Ended) as trouble:
            programs.drop(column)
            row["failed"] = str(trouble)
        self.add(row)

    def bits_of(self, name):
        return self.bits.setdefault(name, Bits(self.arguments.tolerances.get(name, 0.0)))

    def refer(self, programs, kind, name):
        """Takes the reference for all columns from the first one, for more steps than a measurement has."""
        if kind == "training":
            column = self.arguments.columns[kind][0]
            process, _ = programs.get(column, self.words(kind, name))
            self.compare(name, column, prepare.train(process, 1.2 * self.arguments.seconds))
        elif self.bits_of(name).answer is None:
            self.bits_of(name).answer = programs.get("plain", self.words(kind, name))[1].get("digest")

    def compare(self, name, column, figures):
        difference = self.bits_of(name).differ(figures)
        if difference:
            raise Wrong(f"{name} {column}: {difference}")

    def train(self, programs, name, column, _):
        process, found = programs.get(column, self.words("training", name))
        seconds = self.arguments.seconds
        if found and column != "plain":
            prepare.train(process, seconds / 3)
        if self.arguments.switch:
            process.ask("hooks", "off" if column.endswith(OFF) else "on")
        if self.arguments.device == "cuda":
            settle(process.process.pid, os.sched_getaffinity(0))
        begin = process.ask("train")["now"]
        time.sleep(seconds)
        stopped = process.ask("stop", begin, begin + int(seconds * 1e9))
        self.compare(name, column, stopped["figures"])
        return {"steps_per_s": stopped["steps_per_s"], "steps": stopped["steps"]}

    def serve(self, programs, name, column, repetition):
        process, found = programs.get(column, self.words("inference", name))
        if found and found["digest"] != self.bits_of(name).answer:
            raise Wrong(f"{name} {column} answers otherwise than the plain program")
        warm = process.ask("capacity", 2 if self.arguments.size == "small" else 50, 0)["service_us"]
        # of the first column; the others get the same arrivals
        service = self.service.setdefault((name, repetition), mean(warm))
        arrivals = loads.poisson(self.arguments.requests, service / self.arguments.load, repetition)
        answer = process.ask("serve", 3 * arrivals[-1] + 1e6, 0, *(f"{each:.2f}" for each in arrivals))
        if answer["wrong"]:
            raise Wrong(f"{name} {column}: {answer['wrong']} wrong answers")
        return {"latency_us": answer["latency_us"]}

    def all(self):
        size, numbers = self.of_start, list(range(1, self.arguments.repetitions + 1))
        with Mps() if self.arguments.mps else NoMps() as mps:
            return all(self.start(kind, names, numbers[begin:begin + size], mps) for begin in range(0, len(numbers), size)
                       for kind, names in (("training", self.arguments.trainings), ("inference", self.arguments.inference)) if names)

    def failures(self):
        return [f"{row['name']} {row['column']} repetition {row['repetition']}: {row['failed']}" for row in self.rows.values() if "failed" in row]


def figures(kind, row):
    if kind == "training":
        return {"steps": row["steps_per_s"]}
    return {"p50": median(row["latency_us"]), "p99": p99(row["latency_us"])}


def ratios(rows):
    """By (kind, name, column, figure): by start, a ratio over plain, or over the same process with its hooks off, for
    each repetition with both values."""
    found = {}
    for (name, column, repetition), row in rows.items():
        plain = rows.get((name, column + OFF, repetition)) or rows.get((name, "plain", repetition))
        if column == "plain" or not plain or "failed" in row or "failed" in plain:
            continue
        over = figures(row["kind"], plain)
        for figure, value in figures(row["kind"], row).items():
            if over[figure]:
                starts = found.setdefault((row["kind"], name, column, figure), {})
                starts.setdefault(row["start"], []).append(value / over[figure])
    return found


def text(rows):
    lines = ["| program | under | figure | over plain | interval of 95 % | starts, repetitions | target | |", "|---" * 8 + "|"]
    for (kind, name, column, figure), starts in ratios(rows).items():
        middle, half = interval([mean(values) for values in starts.values()])
        target, least = TARGETS.get((column, figure)), kind == "training"
        reached = not target or (middle >= target if least else middle <= target)
        spread = f"{middle - half:.3f} to {middle + half:.3f}" if math.isfinite(half) else "one start"
        lines.append(f"| {name} | {column} | {'steps a second' if least else figure.upper()} | {middle:.3f} | {spread} | {len(starts)}, {sum(map(len, starts.values()))} "
                     f"| {('at least ' if least else 'at most ') + str(target) if target else ''} | {'' if reached else 'missed'} |")
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of = models.PyTorch
    parser.add_argument("--trainings", default=",".join(of.training), help="comma-separated; empty: none")
    parser.add_argument("--inference", default=",".join(f"{model}-{form}" for model in of.inference for form in of.forms))
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--starts", type=int, default=5, help="of all processes, over which the repetitions are spread")
    parser.add_argument("--control", action="store_true", help="measure a second plain process too")
    parser.add_argument("--switch", action="store_true", help="hooks off and on in one process, in place of a plain process")
    parser.add_argument("--requests", type=int, help="of a repetition; 400, without a GPU 4")
    parser.add_argument("--load", type=float, default=0.3, help="fraction of what the model can answer")
    parser.add_argument("--seconds", type=float, help="of training; 3, without a GPU 0.3")
    parser.add_argument("--minutes", type=float, default=8, help="after which it ends, to be taken up again")
    parser.add_argument("--mps", action="store_true", help="all of it under MPS")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--programs", help="the folder of program.py")
    parser.add_argument("--launcher", help="the program tally")
    parser.add_argument("--cache", help="folder of what is compiled; default cache in --out")
    parser.add_argument("--out", default="results-alone")
    arguments = parser.parse_args()
    arguments.size = "real" if arguments.device == "cuda" else "small"
    arguments.seconds = arguments.seconds or (3 if arguments.size == "real" else 0.3)
    arguments.requests = arguments.requests or (400 if arguments.size == "real" else 4)
    arguments.trainings, arguments.inference = ([each for each in names.split(",") if each] for names in (arguments.trainings, arguments.inference))
    arguments.columns = {kind: [*names, CONTROL] if arguments.control else names for kind, names in COLUMNS.items()}
    if arguments.switch:
        arguments.inference, arguments.columns["training"] = [], [each + state for each in COLUMNS["training"][1:] for state in (OFF, "")]
    arguments.models = of(arguments)
    return arguments


def main():
    arguments = parse()
    deadline = time.monotonic() + arguments.minutes * 60
    complete, arguments.tolerances = prepare.prepare(arguments, arguments.trainings, deadline)
    if arguments.device == "cuda":  # what compiles has all CPUs
        cores.keep_apart()
    measurement = Measurement(arguments, deadline)
    complete = complete and measurement.all()
    print(text(measurement.rows))
    print(cores.disturbed(cores.disturbances(list(measurement.rows.values()))))
    for each in measurement.failures():
        print(f"FAILED  {each}")
    if not complete:
        print("the same command goes on from there")
    return 1 if measurement.failures() else 0 if complete else 75


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Ended, Wrong, ValueError, subprocess.SubprocessError) as trouble:
        sys.exit(f"alone.py: {trouble}")
