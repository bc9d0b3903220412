"""Facts about CPUs that a virtual machine hides. The machine may hide which CPUs are two threads of one core; the
system then puts a program's threads on both, and figures depend on the placement. Timing shows such pairs: two busy
threads of one core slow each other down. The machine may also give its CPUs to other machines meanwhile; it reports
that time."""
import multiprocessing
import os
import time

TRIAL = 0.008  # seconds
TRIES = 3  # to measure something
STOLEN = 0.02  # fraction of one CPU's time: largest stolen time of all CPUs together during an undisturbed measurement
SHARED = 0.85  # fraction of a CPU's speed alone; two threads of one core reach 0.5 to 0.7 each


def siblings_told(cpus):
    """Whether the system knows which CPUs share a core: then the system keeps threads apart itself."""
    for cpu in cpus:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                if not file.read().strip().isdigit():
                    return True
        except OSError:
            pass
    return False


def turns(cpu, begin, seconds):
    """The number of turns of a loop on that CPU from `begin` on."""
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
    """Measures whether two CPUs share a core."""

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
        """Measures twice and takes the better count, since another process may have used a CPU once."""
        alone = max(self.count(first) for _ in range(2))
        return max(self.count(first, second) for _ in range(2)) < SHARED * alone


def one_of_each(cpus, share):
    """The CPUs of `cpus` to use: the first CPU of each pair that `share` reports as one core. The function searches
    all other CPUs for a partner of the first CPU or, if that has no partner in `cpus`, of the second. It asks
    `share` twice about each pair, since another process may have disturbed a trial. Machines number all cores alike,
    so the other CPUs are tested at the same distance alone."""
    cpus = sorted(cpus)
    distance = next((other - cpu for cpu in cpus[:2] for other in cpus
                     if other > cpu and share(cpu, other) and share(cpu, other)), None)
    left_out = set()
    for cpu in cpus if distance else []:
        if cpu not in left_out and cpu + distance in cpus and share(cpu, cpu + distance):
            left_out.add(cpu + distance)
    return [cpu for cpu in cpus if cpu not in left_out]


def apart():
    """The CPUs of this process to use: one of each core if the system does not know the cores, else all."""
    cpus = os.sched_getaffinity(0)
    if siblings_told(cpus):
        return cpus
    with Trials() as trials:
        return set(one_of_each(cpus, trials.share))


def keep_apart():
    """Restricts this process and its future children to the CPUs of apart()."""
    os.sched_setaffinity(0, apart())


def stolen():
    """Seconds for which the CPUs together had work but the host ran other machines."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def undisturbed(measure, tries=TRIES, stolen=stolen, clock=time.monotonic):
    """Calls `measure` until other machines leave the CPUs alone during the call, at most `tries` times. Returns the
    last result, the number of tries, and whether the last try was disturbed."""
    for count in range(1, tries + 1):
        began, before = clock(), stolen()
        found = measure()
        disturbed = stolen() - before > STOLEN * (clock() - began)
        if not disturbed:
            break
    return found, {"tries": count, "disturbed": disturbed}


class Measurements:
    """The measurements of a benchmark, each made by undisturbed()."""

    def __init__(self):
        self.tried = []

    def of(self, measure):
        found, tried = undisturbed(measure)
        self.tried.append(tried)
        return found

    def said(self):
        """The number of disturbed measurements, as a sentence."""
        return disturbed(disturbances(self.tried))


def disturbances(rows):
    """Counts over the tries that undisturbed() returned: the number of measurements, the number of repeated ones,
    and the number of those disturbed at the last try too."""
    rows = [row for row in rows if "tries" in row]
    return {"cells": len(rows), "again": sum(row["tries"] > 1 for row in rows), "still": sum(row["disturbed"] for row in rows)}


def disturbed(counts):
    """The same counts as a sentence; an empty text for an old measurement, which has no counts."""
    if not counts["cells"]:
        return ""
    return (f"{counts['again']} of {counts['cells']} measurements were made again, as other machines had had the CPUs of this one; "
            f"{counts['still']} to no avail. ")
