"""The ways to share a GPU that are compared: which program runs where, with what environment."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Role:
    """A process: one of the three programs, its arguments and environment, and whether MPS serves it."""
    program: str  # plain, scheduled, tally
    arguments: tuple = ()
    environment: tuple = ()  # pairs
    mps: bool = False


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    says: str  # in a table's heading
    server: Role
    trainer: Role = None  # a process of its own; None: the server's
    trains: bool = True
    flush: bool = False


STREAMS, NO_STREAMS = ("--priorities=1",), ("--priorities=0",)
OFF = (("TALLY_ARENA", "off"),)
BETWEEN_BLOCKS = (("TALLY_KINDS", "persistent,guard,slice"),)
PLAIN = Role("plain", STREAMS)
ALONE_PROCESS = Role("plain", NO_STREAMS)
MPS_SERVER = Role("plain", NO_STREAMS, (("CUDA_MPS_CLIENT_PRIORITY", "0"),), True)
TALLY_SERVER = Role("tally", NO_STREAMS)


def mps_trainer(*environment):
    return Role("plain", NO_STREAMS, environment, True)


def best_effort(mps):
    return Role("tally", NO_STREAMS, (("TALLY_CLASS", "best-effort"),), mps)


SYSTEMS = [
    System("alone", "alone", PLAIN, trains=False),
    System("alone-flushed", "alone, L2 flushed", PLAIN, trains=False, flush=True),
    System("low-priority", "low-priority stream", PLAIN),
    System("time-slicing", "time slicing", ALONE_PROCESS, ALONE_PROCESS),
    System("mps", "MPS", MPS_SERVER, mps_trainer()),
    System("mps-priorities", "MPS, priorities", MPS_SERVER, mps_trainer(("CUDA_MPS_CLIENT_PRIORITY", "1"))),
    System("mps-25", "MPS, 25 %", MPS_SERVER, mps_trainer(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"))),
    System("mps-50", "MPS, 50 %", MPS_SERVER, mps_trainer(("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"))),
    System("green-contexts", "green contexts, half each", Role("plain", STREAMS + ("--green=0.5",))),
    System("rate", "tally, rate policy", Role("tally", STREAMS, OFF + (("TALLY_POLICY", "rate"),))),
    System("tally-scheduling", "tally, scheduling only", Role("scheduled", STREAMS, OFF)),
    System("tally-block", "tally, block-level", Role("tally", STREAMS, OFF + BETWEEN_BLOCKS)),
    System("tally-everything", "tally, everything", Role("tally", STREAMS, OFF)),
    System("tally-time-slicing", "time slicing, tally", TALLY_SERVER, best_effort(False)),
    System("tally-mps", "MPS, tally", Role("tally", NO_STREAMS, (), True), best_effort(True)),
]
BY_NAME = {each.name: each for each in SYSTEMS}
QUICK = ["alone", "alone-flushed", "low-priority", "time-slicing", "mps", "mps-priorities", "tally-scheduling",
         "tally-block", "tally-everything", "tally-mps"]
# Of programs of which each serves or trains. Alone is time slicing's server, whose trainer does nothing.
PYTORCH = {each.name: each for each in [
    System("alone", "alone", ALONE_PROCESS, ALONE_PROCESS, trains=False),
    System("alone-flushed", "alone, L2 flushed", ALONE_PROCESS, ALONE_PROCESS, trains=False, flush=True),
    System("alone-mps", "alone, MPS", MPS_SERVER, mps_trainer(), trains=False),
    *(BY_NAME[name] for name in ("time-slicing", "mps", "mps-priorities", "tally-time-slicing", "tally-mps"))]}


def on_emulator(role):
    """There the plain program does not run: the relinked one stands in, with everything of high priority."""
    program, arguments = role.program, role.arguments
    if program == "plain":
        program, arguments = "scheduled", NO_STREAMS
    return Role(program, arguments, role.environment + (("TALLY_DEVICE", "emulator"),), False)


def emulated(system):
    """The same for the emulator, or None where it has nothing like it."""
    if system.server.mps or any(each.startswith("--green") for each in system.server.arguments):
        return None
    return dataclasses.replace(system, server=on_emulator(system.server),
                               trainer=system.trainer and on_emulator(system.trainer))
