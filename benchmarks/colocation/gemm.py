#!/usr/bin/env python3
"""P99 of requests beside cuBLAS, whose kernels cannot yield; one table.

Each repetition runs gemm_plain, gemm with its defaults, and gemm with green contexts of some of the SMs for the
kernels that cannot yield, one after the other with the same arrivals. colocation.py defines the ratios.
"""
import argparse
import json
import os

import colocation
import cores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", default=colocation.built("colocation", "gemm_plain"))
    parser.add_argument("--tally", default=colocation.built("colocation", "gemm"))
    parser.add_argument("--probe", default=colocation.built("colocation", "colocation_plain"), help="measures how many kernels make a request")
    parser.add_argument("--request-us", default="1000,5000")
    parser.add_argument("--n", default="1024,2048,4096", help="of the matrices")
    parser.add_argument("--forms", default="launches,graph")
    parser.add_argument("--sms", default="25%,50%", help="green contexts")
    parser.add_argument("--load", type=float, default=0.3)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--step", type=int, default=16)
    parser.add_argument("--out", help="a file for all figures, as JSON")
    arguments = parser.parse_args()

    cores.keep_apart()
    shares = arguments.sms.split(",") if arguments.sms else []
    ways = ["low", "tally"] + shares
    print("| request | form | product | alone P99 | " + " | ".join(
        name if name in ("low", "tally") else f"tally, {name} of SMs" for name in ways) +
        " | best effort: " + ", ".join(ways) + " |")
    print("|---|---|---|---|" + "---|" * (len(ways) + 1), flush=True)
    everything = []
    for form in arguments.forms.split(","):
        graph = int(form == "graph")
        for request in map(float, arguments.request_us.split(",")):
            layers = colocation.layers_of(arguments.probe, request, graph)
            for n in map(int, arguments.n.split(",")):
                latency = {name: [] for name in ["alone"] + ways}
                ratios = {name: [] for name in ways}
                best_effort = {name: [] for name in ways}
                kernel = []
                for repetition in range(arguments.repetitions):
                    common = dict(layers=layers, graph=graph, requests=arguments.requests, n=n,
                                  period_us=request / arguments.load, step=arguments.step, seed=repetition + 1)
                    plain = colocation.run(arguments.plain, phases="alone,train,both", **common)
                    kernel.append(plain["alone"]["kernel_us"])
                    latency["alone"] += plain["alone"]["latency_us"]
                    for name in ways:
                        both = plain["both"]
                        if name != "low":
                            environment = dict(os.environ)
                            if name != "tally":
                                environment["TALLY_BEST_EFFORT_SMS"] = name
                            both = colocation.run(arguments.tally, environment, phases="both", **common)["both"]
                        latency[name] += both["latency_us"]
                        ratios[name].append(colocation.p99(both["latency_us"]) /
                                            colocation.p99(plain["alone"]["latency_us"]))
                        best_effort[name].append(both["kernels_per_s"] / plain["train"]["kernels_per_s"] /
                                                 (1 - both["active"]))
                alone = colocation.p99(latency["alone"])
                cells = [f"{colocation.p99(latency[name]) / alone:.2f} [{min(ratios[name]):.2f}, {max(ratios[name]):.2f}]"
                         for name in ways]
                print(f"| {request / 1000:g} ms | {form} | {colocation.mean(kernel):.0f} us | {alone:.0f} us | " +
                      " | ".join(cells) + " | " +
                      ", ".join(f"{colocation.mean(best_effort[name]):.3f}" for name in ways) + " |", flush=True)
                everything.append(dict(request_us=request, form=form, n=n, kernel_us=kernel, latency=latency,
                                       best_effort=best_effort))
                if arguments.out:
                    with open(arguments.out, "w") as file:
                        json.dump(everything, file)
    print(colocation.measurements.said())


if __name__ == "__main__":
    main()
