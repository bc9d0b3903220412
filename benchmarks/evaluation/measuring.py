"""Measures the missing cells of a run, as long as there is time."""
import concurrent.futures
import queue
import subprocess
import sys
import threading
import time

import cores
from colocation import p99

from . import expected, lateness, logs, results
from .session import Bits, Ended, Session, Wrong


class Progress:
    """A bar on standard error for a terminal; otherwise a line for each step. Any thread may call it."""

    def __init__(self, total):
        self.total, self.done, self.began, self.fresh = total, 0, time.monotonic(), 0
        self.lock = threading.Lock()

    def skip(self, count=1):
        self.done += count

    def step(self, what):
        with self.lock:
            self.done += 1
            self.fresh += 1
            left = (time.monotonic() - self.began) / self.fresh * (self.total - self.done)
            bar = "#" * (30 * self.done // self.total)
            line = f"[{bar:30}] {self.done}/{self.total}  {int(left) // 60}:{int(left) % 60:02} left  {what}"
            if sys.stderr.isatty():
                print(f"\r\x1b[K{line}", end="" if self.done < self.total else "\n", file=sys.stderr, flush=True)
            else:
                print(line, file=sys.stderr, flush=True)


def busy_us(alone):
    """P99 of the server's time for a request, from the instant at which the server is free for it."""
    return p99(expected.services(lateness.arrivals(alone), alone["latency_us"]))


def batches(wanted, most):
    """Cuts `wanted`, `alone` first, in its order, into lists of systems that train in at most `most` processes; the
    process of `alone` always counts as one of them."""
    def trainer(system):
        return Session.key(system, *Session.roles(system)[-1])

    found, trainers = [[]], {trainer(wanted[0])}
    for system in wanted:
        if found[-1] and len(trainers | {trainer(system)}) > most:
            found.append([])
            trainers = {trainer(wanted[0])}
        found[-1].append(system)
        trainers.add(trainer(system))
    return found


class Run:
    def __init__(self, arguments, cells, store, deadline, tolerances):
        """`tolerances`: the allowed difference of the figures of each training that does not repeat its bits."""
        self.arguments, self.cells, self.store, self.deadline = arguments, cells, store, deadline
        self.bits = {pair: Bits(tolerances.get(pair.training, 0.0)) for pair in cells}
        self.failures = []
        self.progress = Progress(sum(len(each) for each in cells.values()) * arguments.repetitions)

    def key(self, pair, system, load, repetition):
        return (pair.name, system.name, self.arguments.arrivals, load, repetition)

    def missing(self, pair):
        """Repetitions that are not complete. The run measures a repetition as a whole, since its ratios belong to it
        alone."""
        return [repetition for repetition in range(1, self.arguments.repetitions + 1)
                if any(self.key(pair, system, load, repetition) not in self.store.known
                       for system, load in self.cells[pair])]

    def waiting(self):
        """The work to do: lists of groups of (pair, repetition). One GPU works on a list. A group has its own
        processes: one repetition, of one pair or, if processes are kept, of all pairs."""
        missing = [(pair, repetition) for pair in self.cells for repetition in self.missing(pair)]
        self.progress.skip(self.progress.total - sum(len(self.cells[pair]) for pair, _ in missing))
        if self.arguments.models.keeps_processes:
            return [[[each for each in missing if each[1] == repetition]] for repetition in sorted({each for _, each in missing})]
        return [[[each] for each in missing if each[0] == pair] for pair in dict.fromkeys(pair for pair, _ in missing)]

    def all(self):
        """Whether all is measured."""
        waiting = queue.SimpleQueue()
        for groups in self.waiting():
            waiting.put(groups)
        with concurrent.futures.ThreadPoolExecutor(len(self.arguments.gpus)) as gpus:
            return all(list(gpus.map(lambda gpu: self.some(waiting, gpu), self.arguments.gpus)))

    def some(self, waiting, gpu):
        """Measures waiting groups on that GPU as long as there is time. Returns whether none is left."""
        while True:
            try:
                groups = waiting.get_nowait()
            except queue.Empty:
                return True
            longest = 0.0
            for group in groups:
                longest = self.together(group, gpu, longest)
                if longest is None:
                    return False

    def together(self, group, gpu, longest):
        """Measures a group. `longest`: the longest time so far, in seconds, of one pair's repetition. Returns the
        new longest time, or None if the time did not suffice for the group."""
        began = time.monotonic()
        if began + longest > self.deadline:
            return None
        here = self.arguments.models.here
        wanted = dict.fromkeys(system for pair, _ in group for system, _ in self.cells[pair])
        available = [here(each) for each in wanted if here(each)]
        parts = batches(available, self.arguments.at_once)
        with Session(self.arguments, group[0][0], available, gpu, self.bits[group[0][0]], parts[0]) as session:
            for pair, repetition in group:
                if time.monotonic() + longest > self.deadline:
                    longest = None
                    break
                session.take(pair, self.bits[pair])
                try:
                    service, steps = session.service_time(), session.train_alone(self.arguments.seconds)
                except (Wrong, Ended) as trouble:
                    self.failures.append(f"{pair.name} alone, repetition {repetition}: {trouble}")
                    session.discard(here(self.arguments.models.systems["alone"]))
                    continue
                for part in parts:
                    self.part(session, part, parts, (pair, repetition), service, steps)
                longest, began = max(longest, time.monotonic() - began), time.monotonic()
            try:
                self.store.say(pair.name, session.end())
                self.store.logs(logs.counts(session.folder, wanted, self.store.rows, group))
            except (Ended, subprocess.TimeoutExpired) as trouble:
                self.failures.append(f"at the end of {pair.name}: {trouble}")
        return longest

    def part(self, session, part, parts, repeated, service, steps):
        """Measures the cells of a repetition whose systems are in `part`; the first part also records the systems
        that this device lacks."""
        pair, repetition = repeated
        if len(parts) > 1:
            try:
                session.only(part)
            except (Ended, subprocess.TimeoutExpired) as trouble:
                self.failures.append(f"within {pair.name}, repetition {repetition}: {trouble}")
                session.start()
        for asked, load in self.cells[pair]:
            system = self.arguments.models.here(asked)
            if system in part or (not system and part is parts[0]):
                row = self.cell(session, system, asked, load, repetition, service, steps)
                if asked.name == "alone" and row["latency_us"] and not session.busy_us:
                    session.learn_alone(busy_us(row))

    def cell(self, session, system, asked, load, repetition, service, steps):
        """Returns the row of a cell after adding it to the store."""
        row = dict(zip(results.KEY, self.key(session.pair, asked, load, repetition)))
        models = self.arguments.models
        count = max(2, self.arguments.requests if asked.name in models.compared else int(self.arguments.requests * models.fewer))
        period = service / load
        row.update(service_us=service, span_s=count * period / 1e6, alone_steps_per_s=steps, latency_us=[], asked=count)
        if session.busy_us:
            row["busy_us"] = session.busy_us  # slo's targets derive from it
        try:
            if not system:
                row["unavailable"] = f"not on the {self.arguments.device}"
            elif not session.prepare(system):
                row["unavailable"] = session.unavailable[system.name]
            else:
                limit = 3 * count * period + 1e6
                found, tried = cores.undisturbed(
                    lambda: session.measure(system, self.arguments.arrivals, count, period, repetition, limit),
                    1 if self.arguments.size == "small" else cores.TRIES)
                row.update(**found, **tried)
        except (Wrong, Ended) as trouble:
            row["failed"] = str(trouble)
            session.discard(system)
        self.store.add(row)
        self.progress.step(f"{session.pair.name} {asked.name} repetition {repetition}")
        return row
