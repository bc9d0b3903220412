#!/usr/bin/env python3
"""P99 of a server's requests beside a trainer in another process on the GPU: with time slicing and MPS alone, and
with tally on top of each; one table.

Each repetition starts each pair of processes anew and goes through all cells with the same arrivals, so every ratio
is of one repetition. P99s are of all repetitions' requests together, over those of the plain server alone without
MPS; brackets hold the lowest and highest of the single repetitions. Best effort is the trainer's throughput over its
throughput alone, divided by 1 - A, the fraction of the time in which the server served no request.

The script starts MPS for the pairs that use it, with directories of its own, and ends it behind them; without
nvidia-cuda-mps-control it leaves these pairs out.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# The module lies in the tree, or beside this file on a GPU's machine.
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "colocation"))
import cores
from colocation import built, mean, median, p99


class Ended(Exception):
    """A process ended unexpectedly."""


class Process:
    """A server or trainer that waits for commands. `command`: the program and its arguments; `patience`: seconds
    until the script kills a process that does not answer."""

    def __init__(self, command, environment, patience=None):
        self.patience, self.errors = patience, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=self.errors, env={**os.environ, **environment})

    def ask(self, *words):
        try:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        watch = threading.Timer(self.patience or 0, self.process.kill)
        if self.patience:
            watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            if self.process.wait() == -signal.SIGINT:  # the terminal interrupts all of its processes
                raise KeyboardInterrupt
            raise Ended(f"{words[0]}: the process ended with {self.process.returncode}: {self.said()}")
        return json.loads(line)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=60)
        if status != 0:
            raise Ended(f"a process ended with {status}: {self.said()}")
        return self.said()


class Mps:
    """The daemon, with directories of its own, within a `with` statement. `environment`: also that of its clients."""

    def __init__(self, environment=()):
        self.environment = dict(environment)

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="tally-mps-")
        folders = {"CUDA_MPS_PIPE_DIRECTORY": self.folder + "/pipe", "CUDA_MPS_LOG_DIRECTORY": self.folder + "/log"}
        for folder in folders.values():
            os.mkdir(folder)
        self.environment.update(folders)
        self.control(["-d"])
        return self

    def control(self, words, text=""):
        subprocess.run(["nvidia-cuda-mps-control"] + words, input=text, text=True, check=True, timeout=60,
                       env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.control([], "quit -t 5\n")
        shutil.rmtree(self.folder, ignore_errors=True)


class NoMps:
    environment = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


# Name, whether under MPS, whether with tally, the environments of the server and of the trainer.
HIGH, LOW = {"CUDA_MPS_CLIENT_PRIORITY": "0"}, {"CUDA_MPS_CLIENT_PRIORITY": "1"}
PAIRS = [
    ("time slicing", False, False, {}, {}),
    ("time slicing, tally", False, True, {}, {"TALLY_CLASS": "best-effort"}),
    ("MPS", True, False, {}, {}),
    ("MPS, priorities", True, False, HIGH, LOW),
    ("MPS, tally", True, True, {}, {"TALLY_CLASS": "best-effort"}),
]


class Measurement:
    def __init__(self, arguments):
        self.arguments = arguments
        self.requests = [float(each) for each in arguments.request_us.split(",")]
        self.blocks = [float(each) for each in arguments.block_us.split(",")]
        self.layers, self.rounds = {}, {}
        self.latency = {}  # (pair, request, block or None) -> a list for each repetition
        self.best_effort = {}  # (pair, request, block) -> a ratio for each repetition
        self.raw, self.first, self.said = {}, {}, []
        self.tries = cores.Measurements()

    def calibrate(self):
        server = Process([self.arguments.plain], {})
        probe = 60
        each = median(server.ask("serve", probe, self.arguments.layer_rounds, 200, 2000, 1)["latency_us"]) / probe
        for request in self.requests:
            self.layers[request] = max(1, round(request / each))
        for block in self.blocks:
            self.rounds[block] = server.ask("rounds", block)["rounds"]
        server.end()

    def serve(self, server, request, seed):
        return server.ask("serve", self.layers[request], self.arguments.layer_rounds, self.arguments.requests,
                          request / self.arguments.load, seed)

    def train(self, trainer, block):
        return trainer.ask("train", self.rounds[block], self.arguments.blocks, self.arguments.step)["now"]

    def both(self, server, trainer, request, block, seed):
        """Requests while the other process trains."""
        self.train(trainer, block)
        answer = self.serve(server, request, seed)
        stopped = trainer.ask("stop", answer["begin"], answer["end"])
        self.check(stopped)
        return answer, stopped

    def keep(self, name, request, block, answer):
        self.latency.setdefault((name, request, block), []).append(answer["latency_us"])
        self.first.setdefault((name, request, block), []).extend(answer["first_launch_us"])

    def pair(self, repetition, name, with_tally, environments):
        """Measures all cells of one pair of processes."""
        program = self.arguments.tally if with_tally else self.arguments.plain
        server, trainer = (Process([program], each) for each in environments)
        for request in self.requests:
            self.keep(name, request, None, self.tries.of(lambda: self.serve(server, request, repetition)))
        for block in self.blocks:
            if name == PAIRS[0][0]:
                begin = self.train(trainer, block)
                time.sleep(self.arguments.seconds)
                stopped = trainer.ask("stop", begin, begin + int(self.arguments.seconds * 1e9))
                self.check(stopped)
                self.alone[block] = stopped["kernels_per_s"]
            for request in self.requests:
                answer, stopped = self.tries.of(lambda: self.both(server, trainer, request, block, repetition))
                self.keep(name, request, block, answer)
                ratio = stopped["kernels_per_s"] / self.alone[block] / (1 - answer["active"])
                self.best_effort.setdefault((name, request, block), []).append(ratio)
                self.raw.setdefault((name, request, block), []).append(stopped["kernels_per_s"])
        for which in (server, trainer):
            self.said.append((repetition, name, which.end()))

    @staticmethod
    def check(stopped):
        if stopped["wrong"] != 0:
            sys.exit(f"{stopped['wrong']} threads did not run once in each kernel")

    def repeat(self, repetition, pairs):
        self.alone = {}
        for under_mps in (False, True):
            chosen = [pair for pair in pairs if pair[1] == under_mps]
            if not chosen:
                continue
            with Mps() if under_mps else NoMps() as service:
                common = {**service.environment, "TALLY_STATS": "1"}
                for name, _, with_tally, server, trainer in chosen:
                    self.pair(repetition, name, with_tally, [{**common, **server}, {**common, **trainer}])

    def spread(self, name, request, block):
        base = self.latency[PAIRS[0][0], request, None]
        cell = self.latency[name, request, block]
        single = [p99(one) / p99(alone) for one, alone in zip(cell, base)]
        whole = p99(sum(cell, [])) / p99(sum(base, []))
        return f"{whole:.2f} [{min(single):.2f}, {max(single):.2f}]"

    def table(self, pairs):
        print("| request | blocks | " + " | ".join(f"{pair[0]}: P99, P50, best effort" for pair in pairs) + " |")
        print("|---|---|" + "---|" * len(pairs))
        for request in self.requests:
            base = sum(self.latency[PAIRS[0][0], request, None], [])
            print(f"| {request / 1000:g} ms | none ({p99(base):.0f} us) | " + " | ".join(
                f"{self.spread(pair[0], request, None)}, "
                f"{median(sum(self.latency[pair[0], request, None], [])) / median(base):.2f}" for pair in pairs) + " |")
            for block in self.blocks:
                cells = []
                for pair in pairs:
                    half = median(sum(self.latency[pair[0], request, block], [])) / median(base)
                    cells.append(f"{self.spread(pair[0], request, block)}, {half:.2f}, "
                                 f"{mean(self.best_effort[pair[0], request, block]):.3f}")
                print(f"| {request / 1000:g} ms | {block:g} us | " + " | ".join(cells) + " |", flush=True)

    def save(self, path):
        def plain(table):
            return [[*key, value] for key, value in table.items()]

        with open(path, "w") as file:
            json.dump(dict(layers=plain({(k,): v for k, v in self.layers.items()}), latency=plain(self.latency),
                           first=plain(self.first), best_effort=plain(self.best_effort),
                           kernels_per_s=plain(self.raw), said=self.said), file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", default=built("hooks", "two_processes_plain"))
    parser.add_argument("--tally", default=built("hooks", "two_processes"))
    parser.add_argument("--request-us", default="200,1000")
    parser.add_argument("--block-us", default="10,50")
    parser.add_argument("--load", type=float, default=0.3, help="fraction of the requests' capacity")
    parser.add_argument("--requests", type=int, default=400, help="of a cell in a repetition")
    parser.add_argument("--layer-rounds", type=int, default=1000, help="of a request's kernels")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=67584, help="of a training kernel")
    parser.add_argument("--step", type=int, default=16, help="training kernels between synchronisations")
    parser.add_argument("--seconds", type=float, default=0.5, help="of training alone")
    parser.add_argument("--pairs", help="some of: " + "; ".join(pair[0] for pair in PAIRS) +
                        "; separated by semicolons. The first is always measured")
    parser.add_argument("--out", help="a file for all figures, as JSON")
    arguments = parser.parse_args()

    wanted = [each.strip() for each in arguments.pairs.split(";")] if arguments.pairs else [p[0] for p in PAIRS]
    pairs = [pair for pair in PAIRS if pair[0] in wanted or pair is PAIRS[0]]
    if not shutil.which("nvidia-cuda-mps-control"):
        print("no nvidia-cuda-mps-control here: without MPS")
        pairs = [pair for pair in pairs if not pair[1]]
    cores.keep_apart()
    measurement = Measurement(arguments)
    measurement.calibrate()
    for repetition in range(1, arguments.repetitions + 1):
        measurement.repeat(repetition, pairs)
        if arguments.out:
            measurement.save(arguments.out)
        print(f"repetition {repetition} of {arguments.repetitions} done", file=sys.stderr, flush=True)
    measurement.table(pairs)
    print(measurement.tries.said())


if __name__ == "__main__":
    try:
        main()
    except Ended as ended:
        sys.exit(str(ended))
