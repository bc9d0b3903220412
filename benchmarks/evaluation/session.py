"""The processes of one pair of models, alive together; only the measured processes work, the others are idle. So the
harness measures compared systems in turn within seconds. A repetition has processes of its own: two processes of one
program differ by as much as some systems do."""
import concurrent.futures
import dataclasses
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

from two_processes import Ended, Mps, NoMps, Process

from . import loads

WARMING = 5  # requests before each measurement
LEARNING = 0.25  # fraction of a measurement's requests that a process with tally serves first, to learn the kernels


class Unavailable(Exception):
    """A system that this machine does not have; the text gives the reason."""


@dataclasses.dataclass(frozen=True)
class Pair:
    inference: str
    form: str  # launches or graph
    training: str

    @property
    def name(self):
        return f"{self.inference}-{self.form}/{self.training}"


class Wrong(Exception):
    """Something was computed wrongly."""


def as_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Bits:
    """The results that must be equal in all processes of a pair. `tolerance`: the allowed relative difference of the
    training's figures in its first steps. Figures of later steps are far apart, since each step's difference makes
    the next one larger."""
    FIRST = 8

    def __init__(self, tolerance=0.0):
        self.answer, self.figures, self.tolerance, self.lock = None, [], tolerance, threading.Lock()

    def differ(self, figures):
        """Names the step with a figure that differs from the earlier one, or returns None."""
        def alike(one, other):
            if not self.tolerance:
                return one == other
            one, other = as_float(one), as_float(other)
            return abs(one - other) <= self.tolerance * abs(other)  # NaN equals no number
        with self.lock:
            for step, (one, other) in enumerate(zip(figures, self.figures), 1):
                if self.tolerance and step > self.FIRST:
                    break
                if not alike(one, other):
                    return f"step {step} computes " + (f"{as_float(one):.6g}, and before {as_float(other):.6g}" if self.tolerance
                                                       else "other bits than before")
            if len(figures) > len(self.figures):
                self.figures = figures
        return None


class Session:
    """`arguments`: models, size, device, as `run` has them. `gpu`: UUID of the GPU; else the first GPU. `bits`:
    those of the pair's earlier sessions. `first`: the systems among `wanted` that start at first; without it all of
    them."""

    def __init__(self, arguments, pair, wanted, gpu=None, bits=None, first=None):
        self.arguments, self.models, self.pair, self.bits = arguments, arguments.models, pair, bits or Bits()
        self.visible = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
        self.folder = tempfile.mkdtemp(prefix="tally-benchmark-")
        self.spawned, self.processes, self.unavailable, self.learnt = {}, {}, {}, set()
        self.loaded, self.gone = {}, []  # by process and kind; the standard error of ended processes
        self.wanted, self.no_mps = first or wanted, "no nvidia-cuda-mps-control here"
        self.busy_us = None  # P99 of the busy times of `alone`
        needs_mps = any(role and role.mps for each in wanted for role in (each.server, each.trainer))
        self.service = Mps(self.visible) if needs_mps and shutil.which("nvidia-cuda-mps-control") else NoMps()

    def __enter__(self):
        try:
            self.service.__enter__()
        except (OSError, subprocess.SubprocessError) as failed:
            self.service, self.no_mps = NoMps(), f"MPS does not start: {failed}"
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        """Starts all processes with their models before any measurement, since a process that starts disturbs the
        others. All start at once, since a context takes its time. Processes that depend on the measurement of
        `alone` start after it, before any other measurement."""
        parts = {}
        for system in self.wanted:
            for role, part in self.roles(system):
                if self.busy_us or not role.needs_alone:
                    parts.setdefault(self.key(system, role, part), (system, role, part))
        for each in parts.values():
            try:
                self.spawn(*each)
            except Unavailable:
                pass  # likewise
        with concurrent.futures.ThreadPoolExecutor(max(1, len(parts))) as pool:
            for started in [pool.submit(self.process, *each) for each in parts.values()]:
                try:
                    started.result()
                except (Unavailable, Wrong, Ended):
                    pass  # prepare() reports it for each affected system

    def learn_alone(self, busy_us):
        """`busy_us`: P99 of the busy times of `alone`."""
        self.busy_us = busy_us
        if any(role.needs_alone for system in self.wanted for role, _ in self.roles(system)):
            self.start()

    def take(self, pair, bits):
        """Takes another pair, with the same processes."""
        if (pair, bits) != (self.pair, self.bits):
            self.pair, self.bits = pair, bits
            self.learnt.clear()
            self.start()

    def __exit__(self, *_):
        for process in self.spawned.values():
            process.process.kill()
            process.process.wait()
        self.service.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self, keys):
        """Ends loaded processes normally, and others by force; keeps their standard error."""
        ending = {key: self.processes.pop(key) for key in keys if key in self.processes}
        for key in keys:
            process = self.spawned.pop(key)
            if key not in ending:
                process.process.kill()
                process.process.wait()
        self.loaded = {which: found for which, found in self.loaded.items() if which[0] not in keys}
        with concurrent.futures.ThreadPoolExecutor(max(1, len(ending))) as pool:
            said = list(pool.map(lambda process: process.end(), ending.values()))
        self.gone += [(key[0], key[2], text) for key, text in zip(ending, said)]

    def end(self):
        """Ends all processes; returns their standard error."""
        self.finish(list(self.spawned))
        return self.gone

    def only(self, wanted):
        """Restricts the session to the processes of `wanted` and of `alone`: ends the others, since these may need
        their memory, and starts the missing ones."""
        needed = {self.key(system, *role) for system in [*wanted, self.models.here(self.models.systems["alone"])] for role in self.roles(system)}
        self.wanted = wanted
        self.learnt &= {system.name for system in wanted}
        self.finish([key for key in self.spawned if key not in needed])
        self.start()

    def discard(self, system):
        """Ends the processes of a system after an error in one of them; the next measurement starts new ones."""
        for role, part in self.roles(system):
            key = self.key(system, role, part)
            process = self.spawned.pop(key, None)
            self.processes.pop(key, None)
            self.loaded = {which: found for which, found in self.loaded.items() if which[0] != key}
            if process:
                process.process.kill()
                process.process.wait()
                self.gone.append((key[0], key[2], process.said()))
        self.learnt.discard(system.name)

    def environment(self, system, role):
        environment = {"TALLY_STATS": "1", **self.visible}
        if system.trainer and role.program != "plain":
            environment["TALLY_ARENA"] = os.path.join(self.folder, system.name)
            os.makedirs(environment["TALLY_ARENA"], mode=0o700, exist_ok=True)
        if role.mps:
            environment.update(self.service.environment)
        environment.update(self.models.environment(role))
        environment.update((variable, value if isinstance(value, str) else value.text(self)) for variable, value in role.environment)
        return environment

    @staticmethod
    def key(system, role, part):
        """Plain processes serve all systems that use them alike."""
        return ("" if role.program == "plain" else system.name, role, part)

    def spawn(self, system, role, part):
        """Returns the process, which may still be starting. `part`: server, trainer or both."""
        key = self.key(system, role, part)
        if role.mps and not self.service.environment:
            return None
        if key not in self.spawned:
            self.spawned[key] = Process(self.models.command(role), self.environment(system, role), self.models.patience)
        return self.spawned[key]

    def process(self, system, role, part):
        """Returns the process with its models loaded."""
        key = self.key(system, role, part)
        process = self.processes.get(key) or self.spawn(system, role, part)
        if not process:
            raise Unavailable(self.no_mps)
        try:
            if key not in self.processes:
                process.ask("facts")
            if part != "trainer":
                self.keep_loaded(key, process, "inference", self.pair.inference, self.pair.form)
            if part != "server":
                self.keep_loaded(key, process, "training", self.pair.training)
        except Ended as ended:
            if process.process.wait() == 3:  # the machine lacks a feature that the process needs
                raise Unavailable(process.said().strip()) from ended
            raise
        self.processes[key] = process
        return process

    def keep_loaded(self, key, process, kind, *names):
        if self.loaded.get((key, kind)) != names:
            self.loaded.pop((key, kind), None)
            self.load(process, kind, *names)
            self.loaded[key, kind] = names

    def load(self, process, kind, name, *more):
        found = process.ask(kind, name, self.arguments.size, *more)
        if "error" in found:
            raise Wrong(f"{name}: {found['error']}")
        if found.get("compiled_anew"):
            print(f"{name}: {found['compiled_anew']} graphs were compiled anew, beside others", file=sys.stderr)
        if "digest" in found:
            with self.bits.lock:
                if self.bits.answer not in (None, found["digest"]):
                    raise Wrong(f"{name} answers differently in different processes")
                self.bits.answer = found["digest"]

    @staticmethod
    def roles(system):
        """The role of the process that serves, and of the process that trains if that is another one."""
        if not system.trainer:
            return [(system.server, "both")]
        return [(system.server, "server"), (system.trainer, "trainer")]

    def parts(self, system):
        """The processes that serve and train."""
        processes = [self.process(system, role, part) for role, part in self.roles(system)]
        return processes[0], processes[-1]

    def prepare(self, system):
        """Starts the processes of the system; returns whether this machine has it."""
        try:
            self.parts(system)
        except Unavailable as missing:
            self.unavailable[system.name] = str(missing)
        return system.name not in self.unavailable

    def alone(self):
        """The processes that serve and train with no other process at work."""
        return self.parts(self.models.here(self.models.systems["alone"]))

    def service_time(self):
        """Time of a request alone, in microseconds, with requests one behind the other: capacity is its inverse."""
        server, _ = self.alone()
        least, seconds = (3, 0) if self.arguments.size == "small" else (50, 0.2)
        times = server.ask("capacity", least, seconds)["service_us"]
        return sum(times) / len(times)

    def train_alone(self, seconds):
        """Steps a second of the training alone."""
        _, trainer = self.alone()
        while True:
            begin = trainer.ask("train")["now"]
            time.sleep(seconds)
            stopped = self.stopped(trainer, begin, begin + int(seconds * 1e9))
            if stopped["steps"] > 3:
                return stopped["steps_per_s"]
            seconds *= 2

    def stopped(self, trainer, begin, end):
        """Ends training, and checks that its figures equal those of all other runs after as many steps."""
        stopped = trainer.ask("stop", begin, end)
        difference = self.bits.differ(stopped["figures"])
        if difference:
            raise Wrong(f"{self.pair.training}: {difference}")
        return stopped

    def measure(self, system, kind, count, period, seed, limit):
        """One repetition of a cell. Times in microseconds."""
        server, trainer = self.parts(system)
        if system.trains:
            trainer.ask("train")
        server.ask("capacity", WARMING if self.arguments.size != "small" else 0, 0)
        if system.server.program != "plain" and system.name not in self.learnt:
            self.learnt.add(system.name)
            learning = 0 if self.arguments.size == "small" else system.learning_s * 1e6
            self.serve(server, system, loads.arrivals(kind, max(2, int(count * LEARNING), int(learning / period)), period, 0), limit + learning)
        answer = self.serve(server, system, loads.arrivals(kind, count, period, seed), limit)
        found = {"latency_us": answer["latency_us"], "asked": count, "active": answer["active"],
                 "begin": answer["begin"], "end": answer["end"], "seconds": (answer["end"] - answer["begin"]) / 1e9}
        if system.trains:
            stopped = self.stopped(trainer, answer["begin"], answer["end"])
            found.update(steps_per_s=stopped["steps_per_s"], steps=stopped["steps"])
        return found

    def serve(self, server, system, arrivals, limit):
        answer = server.ask("serve", limit, int(system.flush), *(f"{each:.2f}" for each in arrivals))
        if answer["wrong"]:
            raise Wrong(f"{self.pair.inference} under {system.name}: {answer['wrong']} wrong answers")
        return answer
