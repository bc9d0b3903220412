"""Arrivals of requests: instants in microseconds, ascending, the first one after a millisecond."""
import csv
import random

START_US = 1000.0


def poisson(count, period_us, seed):
    source = random.Random(seed)
    at, arrivals = START_US, []
    for _ in range(count):
        arrivals.append(at)
        at += source.expovariate(1 / period_us)
    return arrivals


def bursty(count, period_us, seed, factor=4.0, burst=20):
    """Poisson at `factor` times the rate for about `burst` requests, then a pause. The mean rate is that of
    `period_us`."""
    source = random.Random(seed)
    at, arrivals = START_US, []
    while len(arrivals) < count:
        length = min(1 + int(source.expovariate(1 / (burst - 1))), count - len(arrivals))
        for _ in range(length):
            arrivals.append(at)
            at += source.expovariate(factor / period_us)
        at += source.expovariate(1 / (length * period_us * (1 - 1 / factor)))
    return arrivals


def read_trace(path):
    """The column `arrival_us` of a CSV file; README.md beside this file lists the other allowed content."""
    with open(path, newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        if "arrival_us" not in (rows.fieldnames or []):
            raise ValueError(f"{path}: no column arrival_us")
        arrivals = []
        for number, row in enumerate(rows, 2):
            at = float(row["arrival_us"])
            if arrivals and at < arrivals[-1]:
                raise ValueError(f"{path}: arrival {at} in row {number} is before the one above it")
            arrivals.append(at)
    if len(arrivals) < 2 or arrivals[-1] == arrivals[0]:
        raise ValueError(f"{path}: fewer than two instants")
    return arrivals


def replayed(trace, count, period_us):
    """The first `count` arrivals of the trace, stretched to the mean rate of `period_us`; a shorter trace repeats."""
    mean = (trace[-1] - trace[0]) / (len(trace) - 1)
    span = trace[-1] - trace[0] + mean
    scale = period_us / mean
    return [START_US + (trace[i % len(trace)] - trace[0] + i // len(trace) * span) * scale
            for i in range(count)]


def arrivals(kind, count, period_us, seed):
    """`kind`: poisson, bursty, or the path of a trace."""
    if kind == "poisson":
        return poisson(count, period_us, seed)
    if kind == "bursty":
        return bursty(count, period_us, seed)
    return replayed(read_trace(kind), count, period_us)
