"""The P99 to expect beside a training with non-preemptible kernels, computed from their lengths and times, before
any measurement with both.

A request that comes to an idle server finds a kernel at work, or none, as often as the training keeps the GPU busy
alone. The request waits until that kernel has ended, together with the kernels sent ahead with it: kernels in a row
that together fit into the bound. A request that comes behind another request waits for no kernel. A kernel with
variants (Triton's) yields within the bound. The requests' own times are those of `alone`, or those with the L2
flushed if the run measured them."""
import bisect
import itertools
import random

from colocation import p99

from . import lateness
from .results import KEY

BOUND_US = 20.0  # TALLY_BOUND_US
ROUNDS = 20  # passes over all requests, with other places in the training
MARGIN = 0.1  # fraction of the expected value: largest difference of a measurement


def yields(name):
    return name.startswith("triton_")


def batches(kernels):
    """(begin, end, longest delay of a request) for each group of kernels that are sent together."""
    found = []
    for name, begin, took in kernels:
        held = min(took, BOUND_US) if yields(name) else took
        if found and begin + took - found[-1][0] <= BOUND_US:
            found[-1] = (found[-1][0], begin + took, found[-1][2] + held)
        else:
            found.append((begin, begin + took, held))
    return found


class Waits:
    """The wait of a request that comes at a random time."""

    def __init__(self, kernels):
        self.batches = batches(kernels)
        self.begins = [begin for begin, _, _ in self.batches]
        self.span = max((end for _, end, _ in self.batches), default=0)

    def at(self, instant):
        i = bisect.bisect_right(self.begins, instant) - 1
        if i < 0:
            return 0.0
        _, end, held = self.batches[i]
        return min(max(0.0, end - instant), held)

    def draw(self, source):
        return self.at(source.uniform(0, self.span))


def services(arrivals, latency):
    """Service time of each request: from the time when the server was free for it."""
    ends = [arrival + took for arrival, took in zip(arrivals, latency)]
    return [end - max(arrival, before) for arrival, end, before in zip(arrivals, ends, itertools.chain([float("-inf")], ends))]


def beside(arrivals, served, waits, source):
    """Latencies of a server with these service times, beside the training."""
    latency, free = [], float("-inf")
    for arrival, took in zip(arrivals, served):
        begin = max(arrival, free)
        free = begin + took + (waits.draw(source) if arrival >= free else 0)
        latency.append(free - arrival)
    return latency


def longest(kernels):
    """The longest kernel that does not yield: name and microseconds."""
    name, _, took = max((each for each in kernels if not yields(each[0])), key=lambda each: each[2], default=("", 0, 0.0))
    return name, took


def table(rows, kernels):
    """A row for each pair with a known list of training kernels, and each of Tally's systems."""
    measured = {tuple(row[each] for each in KEY): row for row in rows if row["latency_us"]}
    found = []
    for pair, arrivals, load in dict.fromkeys((row["pair"], row["arrivals"], row["load"]) for row in measured.values()):
        training, source = kernels.get(pair.partition("/")[2]), random.Random(1)
        of_pair = {key: row for key, row in measured.items() if (key[0], key[2], key[3]) == (pair, arrivals, load)}
        alone = [row for row in of_pair.values() if row["system"] == "alone"]
        if not training or not alone:
            continue
        waits, before, then = Waits(training), [], []
        for row in alone:
            served = of_pair.get((pair, "alone-flushed", arrivals, load, row["repetition"]), row)
            came = lateness.arrivals(row)
            before += row["latency_us"]
            for _ in range(ROUNDS):
                then += beside(came, services(came, served["latency_us"]), waits, source)
        name, took = longest(training)
        for system in ("tally-time-slicing", "tally-mps"):
            latency = sum((row["latency_us"] for row in of_pair.values() if row["system"] == system), [])
            ratio = p99(latency) / p99(before) if latency else None
            expects = p99(then) / p99(before)
            found.append({"pair": pair, "system": system, "load": load, "expected": expects, "measured": ratio, "longest": name,
                          "longest_us": took, "within": ratio is None or ratio <= expects * (1 + MARGIN)})
    return found


def text(found):
    lines = [f"{'':34}{'system':20}{'load':>5} {'expected':>9} {'measured':>9} {'':>7} longest kernel that does not yield"]
    for row in found:
        measured = f"{row['measured']:9.3f} {'' if row['within'] else 'beyond':>7}" if row["measured"] else " " * 17
        lines.append(f"{row['pair'][:33]:34}{row['system']:20}{row['load']:5.2f} {row['expected']:9.3f} {measured} "
                     f"{row['longest_us']:.0f} us {row['longest'][:60]}")
    return "\n".join(lines + [f"P99 over alone; beyond: more than {MARGIN:.0%} above what is expected"])
