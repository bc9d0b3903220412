"""The processes of one pair of models, alive together and idle but for those being measured, so that what is
compared is measured in turn within seconds. A repetition has processes of its own: two of one program differ by
as much as some systems do."""
import concurrent.futures
import dataclasses
import os
import shutil
import subprocess
import tempfile
import threading
import time

from two_processes import Ended, Mps, NoMps, Process

from . import loads, systems

PROGRAMS = {"plain": "workloads_plain", "scheduled": "workloads_scheduled", "tally": "workloads"}
WARMING = 5  # requests before each measurement
LEARNING = 0.25  # of a measurement's requests before the first of a process that learns from what it runs


class Unavailable(Exception):
    """A system that this machine does not have; the text says why."""


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


class Bits:
    """What all processes of a pair have to compute alike."""

    def __init__(self):
        self.answer, self.figures, self.lock = None, [], threading.Lock()


class Session:
    """`arguments`: programs, size, device, as `run` has them. `gpu`: which one, by its UUID; else the first. `bits`: of
    the pair's sessions before."""

    def __init__(self, arguments, pair, wanted, gpu=None, bits=None):
        self.arguments, self.pair, self.bits = arguments, pair, bits or Bits()
        self.visible = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}
        self.folder = tempfile.mkdtemp(prefix="tally-benchmark-")
        self.spawned, self.processes, self.unavailable, self.learnt = {}, {}, {}, set()
        self.wanted, self.no_mps = wanted, "no nvidia-cuda-mps-control here"
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
        """All processes with their models, before anything is measured: whoever starts disturbs the others. All at once, since a
        context takes its time."""
        parts = {}
        for system in self.wanted:
            for role, part in self.roles(system):
                parts.setdefault(self.key(system, role, part), (system, role, part))
        for each in parts.values():
            self.spawn(*each)
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
            for started in [pool.submit(self.process, *each) for each in parts.values()]:
                try:
                    started.result()
                except Unavailable:
                    pass  # prepare() says it of each system that it holds for

    def __exit__(self, *_):
        for process in self.spawned.values():
            process.process.kill()
            process.process.wait()
        self.service.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self):
        """Ends the processes as they should end; what they said."""
        ending, self.processes = self.processes, {}
        with concurrent.futures.ThreadPoolExecutor(len(ending)) as pool:
            said = list(pool.map(lambda process: process.end(), ending.values()))
        for key in ending:
            del self.spawned[key]
        return [(key[0], key[2], text) for key, text in zip(ending, said)]

    def environment(self, system, role):
        environment = {"TALLY_STATS": "1", **self.visible}
        if system.trainer and role.program != "plain":
            environment["TALLY_ARENA"] = os.path.join(self.folder, system.name)
            os.makedirs(environment["TALLY_ARENA"], mode=0o700, exist_ok=True)
        if role.mps:
            environment.update(self.service.environment)
        environment.update(role.environment)
        return environment

    def key(self, system, role, part):
        """Plain processes serve all systems that use them alike."""
        return ("" if role.program == "plain" else system.name, role, part)

    def spawn(self, system, role, part):
        """The process, which may still be starting. `part`: server, trainer or both."""
        key = self.key(system, role, part)
        if role.mps and not self.service.environment:
            return None
        if key not in self.spawned:
            program = os.path.join(self.arguments.programs, PROGRAMS[role.program])
            self.spawned[key] = Process([program, *role.arguments], self.environment(system, role))
        return self.spawned[key]

    def process(self, system, role, part):
        """The same with its models loaded."""
        key = self.key(system, role, part)
        if key not in self.processes:
            process = self.spawn(system, role, part)
            if not process:
                raise Unavailable(self.no_mps)
            try:
                process.ask("facts")
                if part != "trainer":
                    self.load(process, "inference", self.pair.inference, self.pair.form)
                if part != "server":
                    self.load(process, "training", self.pair.training)
            except Ended as ended:
                if process.process.wait() == 3:  # what was asked for is not there
                    raise Unavailable(process.said().strip()) from ended
                raise
            self.processes[key] = process
        return self.processes[key]

    def load(self, process, kind, name, *more):
        found = process.ask(kind, name, self.arguments.size, *more)
        if "error" in found:
            raise Wrong(f"{name}: {found['error']}")
        if "digest" in found:
            with self.bits.lock:
                if self.bits.answer not in (None, found["digest"]):
                    raise Wrong(f"{name} answers differently in different processes")
                self.bits.answer = found["digest"]

    @staticmethod
    def roles(system):
        """Of the process that serves, and of the one that trains where that is another."""
        if not system.trainer:
            return [(system.server, "both")]
        return [(system.server, "server"), (system.trainer, "trainer")]

    def parts(self, system):
        """The processes that serve and train."""
        processes = [self.process(system, role, part) for role, part in self.roles(system)]
        return processes[0], processes[-1]

    def prepare(self, system):
        """Starts what the system needs; whether this machine has it."""
        try:
            self.parts(system)
        except Unavailable as missing:
            self.unavailable[system.name] = str(missing)
        return system.name not in self.unavailable

    def service_time(self):
        """What a request takes alone, in microseconds, one behind the other: capacity is its inverse."""
        plain = systems.BY_NAME["alone"]
        if self.arguments.device == "emulator":
            plain = systems.emulated(plain)
        server, _ = self.parts(plain)
        least, seconds = (3, 0) if self.arguments.device == "emulator" else (50, 0.2)
        times = server.ask("capacity", least, seconds)["service_us"]
        return sum(times) / len(times)

    def train_alone(self, seconds):
        """Steps a second with nothing beside them."""
        plain = systems.BY_NAME["alone"]
        if self.arguments.device == "emulator":
            plain = systems.emulated(plain)
        _, trainer = self.parts(plain)
        while True:
            begin = trainer.ask("train")["now"]
            time.sleep(seconds)
            stopped = self.stopped(trainer, begin, begin + int(seconds * 1e9))
            if stopped["steps"] > 3:
                return stopped["steps_per_s"]
            seconds *= 2

    def stopped(self, trainer, begin, end):
        """Ends training; its figures have to be those of all other runs after as many steps."""
        stopped = trainer.ask("stop", begin, end)
        figures = self.bits.figures
        known = min(len(figures), len(stopped["figures"]))
        if figures[:known] != stopped["figures"][:known]:
            first = next(i for i in range(known) if figures[i] != stopped["figures"][i])
            raise Wrong(f"{self.pair.training}: step {first + 1} computes other bits than before")
        if len(stopped["figures"]) > len(figures):
            self.bits.figures = stopped["figures"]
        return stopped

    def measure(self, system, kind, count, period, seed, limit):
        """One repetition of a cell. Times in microseconds."""
        server, trainer = self.parts(system)
        if system.trains:
            trainer.ask("train")
        server.ask("capacity", WARMING if self.arguments.device != "emulator" else 0, 0)
        if system.server.program != "plain" and system.name not in self.learnt:
            self.learnt.add(system.name)
            self.serve(server, system, loads.arrivals(kind, max(2, int(count * LEARNING)), period, 0), limit)
        answer = self.serve(server, system, loads.arrivals(kind, count, period, seed), limit)
        found = {"latency_us": answer["latency_us"], "asked": count, "active": answer["active"],
                 "seconds": (answer["end"] - answer["begin"]) / 1e9}
        if system.trains:
            stopped = self.stopped(trainer, answer["begin"], answer["end"])
            found.update(steps_per_s=stopped["steps_per_s"], steps=stopped["steps"])
        return found

    def serve(self, server, system, arrivals, limit):
        answer = server.ask("serve", limit, int(system.flush), *(f"{each:.2f}" for each in arrivals))
        if answer["wrong"]:
            raise Wrong(f"{self.pair.inference} under {system.name}: {answer['wrong']} wrong answers")
        return answer
