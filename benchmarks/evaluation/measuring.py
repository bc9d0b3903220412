"""Measures what a run lacks, as long as there is time."""
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
    """A bar on standard error, for people; a line for each step where that is no terminal. For any thread."""

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
    """P99 of what the server takes for a request once it is free for it."""
    return p99(expected.services(lateness.arrivals(alone), alone["latency_us"]))


def batches(wanted, most):
    """`wanted`, `alone` first, in its order, cut into lists of systems that train in at most so many processes; that of `alone` is
    always one of them."""
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
        """`tolerances`: of trainings whose figures need not have all bits alike, by how much they may differ."""
        self.arguments, self.cells, self.store, self.deadline = arguments, cells, store, deadline
        self.bits = {pair: Bits(tolerances.get(pair.training, 0.0)) for pair in cells}
        self.failures = []
        self.progress = Progress(sum(len(each) for each in cells.values()) * arguments.repetitions)

    def key(self, pair, system, load, repetition):
        return (pair.name, system.name, self.arguments.arrivals, load, repetition)

    def missing(self, pair):
        """Repetitions that are not complete. One is measured as a whole, since its ratios are its own."""
        return [repetition for repetition in range(1, self.arguments.repetitions + 1)
                if any(self.key(pair, system, load, repetition) not in self.store.known
                       for system, load in self.cells[pair])]

    def waiting(self):
        """What is to be measured: lists of groups of (pair, repetition). A list is for one GPU; a group has processes of its own: one
        repetition, of one pair or, where processes are kept, of all."""
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
        """Measures what waits, on that GPU, as long as there is time; whether nothing is left over."""
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
        """Measures a group; `longest`: seconds that one pair's repetition took at most so far. The same with these, or None where
        there was not enough time for all."""
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
        """Measures those cells of a repetition whose systems are `part`; with the first one those that are not on this device."""
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
        """What was measured, which is in the store too."""
        row = dict(zip(results.KEY, self.key(session.pair, asked, load, repetition)))
        models = self.arguments.models
        count = max(2, self.arguments.requests if asked.name in models.compared else int(self.arguments.requests * models.fewer))
        period = service / load
        row.update(service_us=service, span_s=count * period / 1e6, alone_steps_per_s=steps, latency_us=[], asked=count)
        if session.busy_us:
            row["busy_us"] = session.busy_us  # of which slo's targets are made
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
