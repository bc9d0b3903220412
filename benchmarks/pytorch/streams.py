#!/usr/bin/env python3
"""The effect of another process's streams on a server's requests under MPS, after that process has become idle.

  benchmarks/pytorch/streams.py [--inference=MODEL] [--repetitions=N] [--out=FILE]

The script needs a GPU without other work, and MPS. The server replays a model as a CUDA graph, one request behind
the other, while no other process works. Before that, the other process puts kernels on its streams in one of the
ways below. A process without MPS uses the GPU before each row, which ends the after-effects of an earlier row. The
table shows the medians of the requests' microseconds, over the repetitions, and their ratio over the medians before
the kernels.
"""
import argparse
import json
import os
import sys

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [BENCHMARKS, os.path.join(BENCHMARKS, "colocation"), os.path.join(BENCHMARKS, "hooks")]
from colocation import median
from two_processes import Mps, Process

REQUESTS = 200
# The statements put kernels on the legacy stream and on the streams `one` and `other`.
WAYS = {
    "nothing": "",
    "one kernel at a time, each waited for": "for _ in range(300): add(legacy); torch.cuda.synchronize()",
    "the legacy stream": "for _ in range(300): add(legacy)",
    "one other stream": "for _ in range(300): add(one)",
    "the legacy stream, then another": "for _ in range(300): add(legacy)\ntorch.cuda.synchronize()\nfor _ in range(300): add(one)",
    "the legacy stream and another in turns, each behind the other": "for _ in range(300):\n"
        "  add(legacy); one.wait_stream(legacy); add(one); legacy.wait_stream(one)",
    "two other streams": "for _ in range(300): add(one); add(other)",
    "a stream of a green context": "for _ in range(300): add(green())",
    "the legacy stream and one of a green context in turns": "for _ in range(300):\n"
        "  add(legacy); green().wait_stream(legacy); add(green()); legacy.wait_stream(green())",
    "streams of two green contexts in turns": "for _ in range(300):\n"
        "  add(green(64)); green().wait_stream(green(64)); add(green()); green(64).wait_stream(green())",
}
OTHER = """
import ctypes, functools, json, sys, torch
words = torch.zeros(264 * 256, device="cuda")
legacy, one, other = torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()
def add(stream):
    with torch.cuda.stream(stream):
        words.add_(1)
def call(name, *values):
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)(*values)
    if status != 0:
        sys.exit(f"{name}: error {status}")
@functools.cache
def green(sms=32):
    \"\"\"A stream of a green context of so many SMs. A resource is 144 bytes (cuda.h: CUdevResource); 1 is the type SM.\"\"\"
    every, part = ctypes.create_string_buffer(144), ctypes.create_string_buffer(144)
    groups, description, context, stream = ctypes.c_uint(1), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuDeviceGetDevResource", 0, every, 1)
    call("cuDevSmResourceSplitByCount", part, ctypes.byref(groups), every, None, 0, sms)
    call("cuDevResourceGenerateDesc", ctypes.byref(description), part, 1)
    call("cuGreenCtxCreate", ctypes.byref(context), description, 0, 1)
    call("cuGreenCtxStreamCreate", ctypes.byref(stream), context, 1, 0)
    return torch.cuda.ExternalStream(stream.value)
for line in sys.stdin:
    exec(json.loads(line))
    torch.cuda.synchronize()
    print("{}", flush=True)
"""
# Makes the GPU leave the context of MPS.
OUTSIDE = "import torch, sys\nfor line in sys.stdin:\n  torch.ones(1 << 20, device='cuda').sum().item()\n  print('{}', flush=True)\n"


class Measurement:
    def __init__(self, service, inference):
        program = os.path.join(BENCHMARKS, "pytorch", "program.py")
        self.server = Process([sys.executable, program], service.environment, patience=300)
        self.other = Process([sys.executable, "-c", OTHER], service.environment, patience=300)
        self.outside = Process([sys.executable, "-c", OUTSIDE], {}, patience=300)
        self.server.ask("inference", inference, "real", "graph")
        self.other.ask(json.dumps(""))

    def request(self):
        return median(self.server.ask("capacity", REQUESTS, 0)["service_us"])

    def row(self, statements):
        """Microseconds of a request before and after the statements."""
        self.outside.ask("run")
        self.request()
        before = self.request()
        self.other.ask(json.dumps(statements))
        self.request()
        return before, self.request()

    def end(self):
        for process in (self.server, self.other, self.outside):
            process.end()


def text(rows):
    """`rows`: for each way a pair of microseconds for each repetition."""
    lines = ["| kernels of the other process, before | request, us | behind them, us | ratio |", "|---" * 4 + "|"]
    for way, pairs in rows.items():
        ratios = [behind / before for before, behind in pairs]
        lines.append(f"| {way} | {median([before for before, _ in pairs]):.0f} | {median([behind for _, behind in pairs]):.0f} | "
                     f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inference", default="resnet50")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--ways", help="comma-separated numbers of the table's rows, from 0; default all. A way that fails ends the program")
    parser.add_argument("--out", help="writes the pairs of microseconds to this file too")
    arguments = parser.parse_args()
    chosen = [list(WAYS)[int(number)] for number in arguments.ways.split(",")] if arguments.ways else WAYS
    rows = {way: [] for way in chosen}
    with Mps() as service:
        measured = Measurement(service, arguments.inference)
        for _ in range(arguments.repetitions):
            for way in rows:
                rows[way].append(measured.row(WAYS[way]))
        measured.end()
    print(text(rows))
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
