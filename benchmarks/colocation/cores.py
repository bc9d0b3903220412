"""What a virtual machine hides of its CPUs. It may not tell which are two threads of one core; the system then puts a
program's threads on both, and figures depend on where. That shows in time: two busy threads of one core take it from
each other. And it may lend its CPUs to others meanwhile, which it does tell."""
import multiprocessing
import os
import time

TRIAL = 0.008  # seconds
TRIES = 3  # to measure something
STOLEN = 0.02  # of one CPU's time: what others may have had of all CPUs together while something was measured
SHARED = 0.85  # of what a CPU does alone; two threads of one core do 0.5 to 0.7 each


def siblings_told(cpus):
    """Whether the system knows of CPUs that share a core: then it keeps threads apart itself."""
    for cpu in cpus:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                if not file.read().strip().isdigit():
                    return True
        except OSError:
            pass
    return False


def turns(cpu, begin, seconds):
    """How often a loop goes around on that CPU from `begin` on."""
    os.sched_setaffinity(0, {cpu})
    while time.perf_counter() < begin:
        pass
    count, value, end = 0, 1, begin + seconds
    while time.perf_counter() < end:
        for _ in range(50):
            value = (value * 3 + 1) & 0xffff
        count += 1
    return count


class Trials:
    """Whether two CPUs share a core, by trial."""

    def __enter__(self):
        self.pool = multiprocessing.get_context("fork").Pool(2)
        return self

    def __exit__(self, *_):
        self.pool.terminate()

    def count(self, *cpus):
        begin = time.perf_counter() + 0.003
        waiting = [self.pool.apply_async(turns, (cpu, begin, TRIAL)) for cpu in cpus]
        return [each.get() for each in waiting][0]

    def share(self, first, second):
        """Twice, and the better counts: something else may have had a CPU once."""
        alone = max(self.count(first) for _ in range(2))
        return max(self.count(first, second) for _ in range(2)) < SHARED * alone


def one_of_each(cpus, share):
    """Those of `cpus` to use: of two that `share` says to share a core, the first. A partner of the first or, where that
    has none here, the second is looked for among all others, and asked for twice, since a trial may have been disturbed;
    machines number all cores alike, so the rest are asked for the same distance alone."""
    cpus = sorted(cpus)
    distance = next((other - cpu for cpu in cpus[:2] for other in cpus
                     if other > cpu and share(cpu, other) and share(cpu, other)), None)
    left_out = set()
    for cpu in cpus if distance else []:
        if cpu not in left_out and cpu + distance in cpus and share(cpu, cpu + distance):
            left_out.add(cpu + distance)
    return [cpu for cpu in cpus if cpu not in left_out]


def apart():
    """Those of this process's CPUs to use: one of each core where the system does not know of cores, else all."""
    cpus = os.sched_getaffinity(0)
    if siblings_told(cpus):
        return cpus
    with Trials() as trials:
        return set(one_of_each(cpus, trials.share))


def keep_apart():
    """Leaves this process, and those that it starts, the CPUs of apart()."""
    os.sched_setaffinity(0, apart())


def stolen():
    """Seconds for which all CPUs together had something to run and the machine that they are part of ran others."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def undisturbed(measure, tries=TRIES, stolen=stolen, clock=time.monotonic):
    """What `measure` finds, at the first of so many tries in which others did not have the CPUs, or at the last; and
    the number of tries, and whether they had them at the last."""
    for count in range(1, tries + 1):
        began, before = clock(), stolen()
        found = measure()
        disturbed = stolen() - before > STOLEN * (clock() - began)
        if not disturbed:
            break
    return found, {"tries": count, "disturbed": disturbed}


class Measurements:
    """Of a benchmark: measured as undisturbed() does."""

    def __init__(self):
        self.tried = []

    def of(self, measure):
        found, tried = undisturbed(measure)
        self.tried.append(tried)
        return found

    def said(self):
        """How many were disturbed, for people."""
        return disturbed(disturbances(self.tried))


def disturbances(rows):
    """Of what undisturbed() says of tries: how many there are, how many were measured again, and of how many others had the CPUs
    at the last try too."""
    rows = [row for row in rows if "tries" in row]
    return {"cells": len(rows), "again": sum(row["tries"] > 1 for row in rows), "still": sum(row["disturbed"] for row in rows)}


def disturbed(counts):
    """The same in words; none of an old measurement, which does not say."""
    if not counts["cells"]:
        return ""
    return (f"{counts['again']} of {counts['cells']} measurements were made again, as other machines had had the CPUs of this one; "
            f"{counts['still']} to no avail. ")
