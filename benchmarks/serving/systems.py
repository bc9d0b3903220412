"""The compared ways to share a GPU, by the environment of the two programs alone. Green contexts are not among them:
no variable of CUDA gives one to an unchanged program."""
import dataclasses
import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FACTORS = ("1.1", "1.25", "1.5")  # slo's factors over a step's time alone


@dataclasses.dataclass(frozen=True)
class System:
    """`server`, `trainer`: pairs of their environments; None: the program does not run. `tally`: both under Tally,
    the trainer as best effort; `slo`: the policy's factor over a step's time alone, None: the policy `priority`."""
    name: str
    server: tuple = ()
    trainer: tuple = None
    mps: bool = False
    tally: bool = False
    slo: str = None

    def policy(self):
        """TALLY_POLICY for the best-effort process."""
        return f"slo:factor={self.slo},queues=0" if self.slo else "priority"


SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


def share(percent):
    return ((SHARE, percent),)


def is_share(system):
    """Whether MPS gives the training a part of the SMs."""
    return SHARE in dict(system.trainer or ())


def tally(name, mps):
    # Under MPS Tally uses green contexts only if a variable asks for them.
    green = (("TALLY_GREEN_CONTEXTS", "on"),)
    return [System(name, (), (), mps, True)] + [System(f"{name}-slo-{factor}", (), green, mps, True, factor) for factor in FACTORS]


BY_NAME = {each.name: each for each in [
    System("training", None, ()),
    System("alone"),
    System("alone-mps", mps=True),
    System("time-slicing", (), ()),
    System("mps", (), (), True),
    System("mps-25", (), share("25"), True),
    System("mps-50", (), share("50"), True),
    *tally("tally-time-slicing", False),
    *tally("tally-mps", True)]}
FIRST = ["training", "alone"]  # the references of a repetition: all others are over these
