"""The compared ways to share a GPU: the program of each role and its environment."""
import dataclasses
import os

from .session import Unavailable, Wrong


@dataclasses.dataclass(frozen=True)
class SloTarget:
    """A value of the environment: the policy slo, with a target of `bound` times the P99 of the busy times of
    `alone`."""
    bound: float

    def text(self, session):
        if not session.busy_us:
            raise Wrong("slo has no target: alone was not measured in this repetition")
        return f"slo:target-us={self.bound * session.busy_us:.0f}"


@dataclasses.dataclass(frozen=True)
class InFolder:
    """A value of the environment: a file in the session's temporary folder."""
    name: str

    def text(self, session):
        return os.path.join(session.folder, self.name)


@dataclasses.dataclass(frozen=True)
class BesidePrograms:
    """A value of the environment: a file, from the folder of the programs."""
    name: str

    def text(self, session):
        path = os.path.abspath(os.path.join(session.models.folder, self.name))
        if not os.path.exists(path):
            raise Unavailable(f"no {path}")
        return path


@dataclasses.dataclass(frozen=True)
class Role:
    """A process: one of the three programs, its arguments and environment, and whether it is a client of MPS."""
    program: str  # plain, scheduled, tally
    arguments: tuple = ()
    environment: tuple = ()  # pairs; a value is a text, or has `text(session)`
    mps: bool = False

    @property
    def needs_alone(self):
        """Whether the environment depends on the measurement of `alone`."""
        return any(isinstance(value, SloTarget) for _, value in self.environment)


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    says: str  # in a table's heading
    server: Role
    trainer: Role = None  # a process of its own; None: the server's process trains
    trains: bool = True
    flush: bool = False
    bound: float = None  # bound on P99 over alone that the system has to keep
    learning_s: float = 0.0  # least seconds of requests before the first measurement
    log: str = ""  # the file in the session's folder into which the server logs its kernels


STREAMS, NO_STREAMS = ("--priorities=1",), ("--priorities=0",)
OFF = (("TALLY_ARENA", "off"),)
BETWEEN_BLOCKS = (("TALLY_KINDS", "persistent,guard,slice"),)
PLAIN = Role("plain", STREAMS)
ALONE_PROCESS = Role("plain", NO_STREAMS)
MPS_SERVER = Role("plain", NO_STREAMS, (("CUDA_MPS_CLIENT_PRIORITY", "0"),), True)
TALLY_SERVER = Role("tally", NO_STREAMS)


def mps_trainer(*environment):
    return Role("plain", NO_STREAMS, environment, True)


def mps_share(percent):
    return System(f"mps-{percent}", f"MPS, {percent} %", MPS_SERVER, mps_trainer(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", str(percent))))


def best_effort(mps):
    return Role("tally", NO_STREAMS, (("TALLY_CLASS", "best-effort"),), mps)


def green_training(sms):
    """Training on `sms` SMs, requests on all SMs."""
    return System(f"green-training-{sms}", f"green context, {sms} SMs for training", Role("plain", STREAMS + (f"--green-training={sms}",)))


def one_process(name, says, *environment, **more):
    """Requests and training in one process with all of Tally's features."""
    return System(name, says, Role("tally", STREAMS, OFF + environment), **more)


def partition(percent):
    share = percent / 100
    return one_process(f"partition-{percent}", f"tally, partition at {percent} %", ("TALLY_POLICY", f"partition:least={share},most={share}"))


def slo(bound, suffix="", policy=None):
    """slo finds its number of SMs within 64 requests for each eight of them."""
    return one_process(f"slo-{bound:.0%}".rstrip("%") + suffix, f"tally, slo at {bound:g}" + suffix.replace("-", ", "),
                       ("TALLY_POLICY", policy or f"slo:factor={bound:g}"), bound=bound, learning_s=4.0)


SYSTEMS = [
    System("alone", "alone", PLAIN, trains=False),
    System("alone-flushed", "alone, L2 flushed", PLAIN, trains=False, flush=True),
    System("low-priority", "low-priority stream", PLAIN),
    System("time-slicing", "time slicing", ALONE_PROCESS, ALONE_PROCESS),
    System("mps", "MPS", MPS_SERVER, mps_trainer()),
    System("mps-priorities", "MPS, priorities", MPS_SERVER, mps_trainer(("CUDA_MPS_CLIENT_PRIORITY", "1"))),
    mps_share(25),
    mps_share(50),
    System("green-contexts", "green contexts, half each", Role("plain", STREAMS + ("--green=0.5",))),
    one_process("rate", "tally, rate policy", ("TALLY_POLICY", "rate")),
    System("tally-scheduling", "tally, scheduling only", Role("scheduled", STREAMS, OFF)),
    one_process("tally-block", "tally, block-level", *BETWEEN_BLOCKS),
    one_process("tally-everything", "tally, everything"),
    System("tally-time-slicing", "time slicing, tally", TALLY_SERVER, best_effort(False)),
    System("tally-mps", "MPS, tally", Role("tally", NO_STREAMS, (), True), best_effort(True)),
]
DEFAULT = [each.name for each in SYSTEMS]
CUPTI_LIBRARY = os.path.join("..", "kernels", "libcupti_log.so")
SYSTEMS += [
    *map(mps_share, (10, 75, 90)),
    *map(green_training, (8, 16, 32, 64, 96)),
    *map(partition, (12, 25, 37, 50, 75, 100)),
    slo(1.10), slo(1.25), slo(1.10, "-target", SloTarget(1.10)), slo(1.25, "-target", SloTarget(1.25)),
    one_process("tally-traced", "tally, TALLY_TRACE", ("TALLY_TRACE", InFolder("trace.json")), log="trace.json"),
    one_process("tally-cupti", "tally, CUPTI's activity records", ("CUDA_INJECTION64_PATH", BesidePrograms(CUPTI_LIBRARY)),
                ("CUPTI_LOG_FILE", InFolder("cupti.log")), log="cupti.log"),
]
BY_NAME = {each.name: each for each in SYSTEMS}


def starting(text):
    return [name for name in BY_NAME if name.startswith(text)]


# The systems that frontier.py compares, by family.
FRONTIER = {"MPS": starting("mps"), "green contexts": starting("green-"), "low-priority stream": ["low-priority"],
            "time slicing": ["time-slicing"], "tally, fixed": ["tally-everything", *starting("partition-")], "tally, slo": starting("slo-")}


# For --systems; `slo`: whether slo keeps its bounds; `log`: the cost of a log of all kernels and calls (logs.py).
GROUPS = {"frontier": sum(FRONTIER.values(), []), "slo": ["tally-everything", *FRONTIER["tally, slo"]],
          "log": ["tally-everything", "tally-traced", "tally-cupti"]}
QUICK = ["alone", "alone-flushed", "low-priority", "time-slicing", "mps", "mps-priorities", "tally-scheduling",
         "tally-block", "tally-everything", "tally-mps"]
# Systems of programs that either serve or train. `alone` is time slicing's server, with an idle trainer.
PYTORCH = {each.name: each for each in [
    System("alone", "alone", ALONE_PROCESS, ALONE_PROCESS, trains=False),
    System("alone-flushed", "alone, L2 flushed", ALONE_PROCESS, ALONE_PROCESS, trains=False, flush=True),
    System("alone-mps", "alone, MPS", MPS_SERVER, mps_trainer(), trains=False),
    *(BY_NAME[name] for name in ("time-slicing", "mps", "mps-priorities", "tally-time-slicing", "tally-mps"))]}


def on_emulator(role):
    """The role on the emulator, where the plain program does not run: the relinked program stands in for it, with
    all its work at high priority."""
    program, arguments = role.program, role.arguments
    if program == "plain":
        program, arguments = "scheduled", NO_STREAMS
    return Role(program, arguments, role.environment + (("TALLY_DEVICE", "emulator"),), False)


def emulated(system):
    """The system for the emulator, or None if the emulator has no counterpart."""
    if (system.server.mps or any(each.startswith("--green") for each in system.server.arguments) or
            any(variable == "CUDA_INJECTION64_PATH" for variable, _ in system.server.environment)):
        return None
    return dataclasses.replace(system, server=on_emulator(system.server),
                               trainer=system.trainer and on_emulator(system.trainer))
