#!/usr/bin/env python3
"""The benefit and the cost of naming the requests of a relinked server (tally/request.h), beside best-effort work of
another process: P50 and P99 as the server, tally-top and Prometheus show them, the time of a begin and an end, and
P99 with named requests over P99 without names.

Each repetition starts a trainer, and beside it a server with named requests and a server without names, in turn,
with the same arrivals; and the plain server alone, for the time of a request. Latencies count from the intended
arrival. Tally shows times from begin to end, so the script compares them with the server's own time from the begin.
The script computes Prometheus' quantiles as histogram_quantile() does. About a minute on a GPU:

  benchmarks/hooks/requests.py --top build/tools/tally-top/tally-top
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "colocation"))
import cores
from colocation import built, median, p99
from two_processes import Ended, Process


def shown_by_prometheus(top, folder):
    """P50 and P99 in microseconds, and the number of requests."""
    text = subprocess.run([top, "--prometheus", f"--arena={folder}"], capture_output=True, text=True, check=True).stdout
    pattern = r'^tally_request_seconds_bucket\{[^}]*class="high"[^}]*le="([^"]+)"\} ([0-9.e+]+)$'
    below = [(float("inf") if edge == "+Inf" else float(edge), float(count))
             for edge, count in re.findall(pattern, text, re.M)]
    total = below[-1][1] if below else 0

    def quantile(fraction):
        before, begin = 0.0, 0.0
        for edge, count in below:
            if count >= fraction * total and count > before:
                return (begin + (edge - begin) * (fraction * total - before) / (count - before)) * 1e6
            before, begin = count, edge
        return float("nan")

    return quantile(0.5), quantile(0.99), int(total)


class Top:
    """tally-top over an interval that begins now and is longer than the measurement."""

    def __init__(self, program, folder, seconds):
        self.process = subprocess.Popen([program, "--json", "--once", f"--interval={int(seconds * 1000)}", f"--arena={folder}"],
                                        stdout=subprocess.PIPE, text=True)

    def shown(self):
        clients = [each for arena in json.loads(self.process.communicate()[0])["arenas"] for each in arena["clients"]
                   if each["class"] == "high"]
        return clients[0]["request_us"] if clients else {"count": 0, "p50": None, "p99": None}


class Measurement:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.common = {"TALLY_ARENA": folder}
        self.latency = {"alone": [], "not named": [], "named": []}
        self.own, self.top, self.prometheus, self.costs, self.wrong = [], [], [], [], 0

    def program(self, name):
        return [os.path.join(self.arguments.programs, name)]

    def server(self, name="two_processes"):
        return Process(self.program(name), self.common)

    def calibrate(self):
        server = self.server(self.arguments.plain)
        if self.arguments.layers:
            self.layers, self.rounds = self.arguments.layers, self.arguments.rounds
        else:
            each = median(server.ask("serve", 60, 1000, 200, 2000, 1)["latency_us"]) / 60
            self.layers = max(1, round(self.arguments.request_us / each))
            self.rounds = server.ask("rounds", self.arguments.block_us)["rounds"]
        server.end()
        self.period = self.arguments.request_us / self.arguments.load

    def serve(self, server, command, seed):
        return server.ask(command, self.layers, 1000 if not self.arguments.layers else 1, self.arguments.requests,
                          self.period, seed)

    def named(self, server, seed):
        server.ask("serve", self.layers, 1, 1, self.period, seed)  # the process has its memory and its arena
        seconds = 1.3 * self.arguments.requests * self.period * 1e-6 + 1.5
        top = Top(self.arguments.top, self.folder, seconds)
        answer = self.serve(server, "name", seed)
        self.top.append(top.shown())
        self.prometheus.append(shown_by_prometheus(self.arguments.top, self.folder))
        self.own.append(answer["service_us"])
        self.costs.append(("beside training", server.ask("cost", self.arguments.pairs)))
        return answer

    def repeat(self, seed):
        server = self.server(self.arguments.plain)
        self.latency["alone"].append(self.serve(server, "serve", seed)["latency_us"])
        server.end()
        trainer = Process(self.program("two_processes"), {**self.common, "TALLY_CLASS": "best-effort"})
        trainer.ask("train", self.rounds, self.arguments.blocks, self.arguments.step)
        order = ["not named", "named"]
        for name in order if seed % 2 else order[::-1]:
            server = self.server()
            answer = self.named(server, seed) if name == "named" else self.serve(server, "serve", seed)
            self.latency[name].append(answer["latency_us"])
            server.end()
        self.wrong += trainer.ask("stop", 0, 1)["wrong"]
        trainer.end()
        if seed == 1:
            server = self.server()  # no best-effort work waits
            self.serve(server, "serve", seed)
            self.costs.insert(0, ("nobody waits", server.ask("cost", self.arguments.pairs)))
            server.end()

    def report(self):
        base = p99(sum(self.latency["alone"], []))
        for name, each in self.latency.items():
            whole = sum(each, [])
            single = [p99(one) / p99(alone) for one, alone in zip(each, self.latency["alone"])]
            print(f"{name:>10}: P50 {median(whole):9.1f} us, P99 {p99(whole):9.1f} us, "
                  f"{p99(whole) / base:.3f} of alone [{min(single):.3f}, {max(single):.3f}]")
        ratios = [p99(one) / p99(other) for one, other in zip(self.latency["named"], self.latency["not named"])]
        whole = p99(sum(self.latency["named"], [])) / p99(sum(self.latency["not named"], []))
        print(f"P99 named over not named: {whole:.3f} [{min(ratios):.3f}, {max(ratios):.3f}]")
        for own, top, prometheus in zip(self.own, self.top, self.prometheus):
            values = sorted(own)
            for name, fraction, key, place in (("P50", 0.5, "p50", 0), ("P99", 0.99, "p99", 1)):
                exact = values[min(int(fraction * len(values)), len(values) - 1)]
                off = [100 * (shown / exact - 1) if shown else float("nan") for shown in (top[key], prometheus[place])]
                print(f"{name} from begin to end: own {exact:.1f} us; tally-top {top[key]} us ({off[0]:+.2f} %), "
                      f"Prometheus {prometheus[place]:.1f} us ({off[1]:+.2f} %)")
            print(f"  requests: own {len(own)}, tally-top {top['count']}, Prometheus {prometheus[2]}")
        for name, cost in self.costs:
            print(f"cost, {name}: begin {cost['begin_ns']:.0f} ns, end {cost['end_ns']:.0f} ns (medians, less the clock's "
                  f"{cost['clock_ns']:.0f} ns); a pair {cost['pair_ns']:.0f} ns on average")
        if self.wrong:
            sys.exit(f"{self.wrong} threads of the training did not run once in each kernel")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=built("hooks"), help="folder of two_processes and two_processes_plain")
    parser.add_argument("--plain", default="two_processes_plain", help="the program without tally; on the emulator two_processes")
    parser.add_argument("--top", default="tally-top")
    parser.add_argument("--request-us", type=float, default=1000)
    parser.add_argument("--block-us", type=float, default=50)
    parser.add_argument("--load", type=float, default=0.3, help="fraction of the requests' capacity")
    parser.add_argument("--requests", type=int, default=500, help="of a cell in a repetition")
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=67584, help="of a training kernel")
    parser.add_argument("--step", type=int, default=4, help="training kernels between synchronisations")
    parser.add_argument("--pairs", type=int, default=20000, help="of a begin and an end, whose cost is measured")
    parser.add_argument("--layers", type=int, help="of a request, each of one round: for trials on the emulator; measures nothing first")
    parser.add_argument("--rounds", type=int, default=1, help="with --layers: of a training block")
    arguments = parser.parse_args()
    cores.keep_apart()
    with tempfile.TemporaryDirectory(prefix="tally-requests-") as folder:
        measurement = Measurement(arguments, folder)
        measurement.calibrate()
        for repetition in range(1, arguments.repetitions + 1):
            measurement.repeat(repetition)
        measurement.report()


if __name__ == "__main__":
    try:
        main()
    except Ended as ended:
        sys.exit(str(ended))
