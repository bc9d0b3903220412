"""The programs to measure: the names of their models, their systems, and the command of a process."""
import os
import shutil
import sys

from colocation import built

from .systems import BY_NAME, DEFAULT, GROUPS, PYTORCH, QUICK, emulated

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Three trainings for each served model, in the order of the trainings, so several pairs in a row use one loaded
# training.
TWELVE = ["bert-graph/resnet50", "gpt2-launches/resnet50", "llama-graph/resnet50", "resnet50-launches/gpt2", "bert-launches/gpt2",
          "llama-launches/gpt2", "resnet50-graph/dlrm", "gpt2-graph/dlrm", "llama-graph/dlrm", "resnet50-graph/unet",
          "bert-launches/unet", "gpt2-graph/unet"]

# CUDA's pairs of the frontier: half with requests that are graphs, each training three times.
FRONTIER = ["bert-graph/gpt2-training", "gpt2-launches/monte-carlo", "resnet50-graph/dlrm", "bert-launches/resnet50-training",
            "gpt2-graph/gpt2-training", "resnet50-launches/monte-carlo", "bert-launches/dlrm", "gpt2-graph/resnet50-training",
            "resnet50-graph/gpt2-training", "bert-graph/monte-carlo", "gpt2-launches/dlrm", "resnet50-launches/resnet50-training"]


def launcher_here():
    """The program `tally`: the one in the build folder, else the one of PATH; None if neither exists."""
    ours = os.path.join(BENCHMARKS, "..", "build", "tools", "tally", "tally")
    return ours if os.path.exists(ours) else shutil.which("tally")


class Cuda:
    """The programs of benchmarks/workloads, three builds of one."""
    name = "cuda"
    inference, forms = ["bert", "gpt2", "resnet50"], ["launches", "graph"]
    training = ["gpt2-training", "resnet50-training", "dlrm", "monte-carlo"]
    quick = ["bert-graph/gpt2-training", "gpt2-launches/monte-carlo", "resnet50-graph/dlrm", "bert-launches/resnet50-training"]
    groups = {"frontier": FRONTIER}
    systems, full_systems, quick_systems, system_groups = BY_NAME, DEFAULT, QUICK, GROUPS
    compared = ["alone", "tally-block", "tally-everything", "tally-mps"]
    fewer = 0.2  # factor on the number of requests, for all other systems
    substitute = "emulator"  # the device of a machine without a GPU
    timeline = True
    keeps_processes = False  # for the next pair
    patience = None
    programs = {"plain": "workloads_plain", "scheduled": "workloads_scheduled", "tally": "workloads"}

    def __init__(self, arguments):
        self.folder = arguments.programs or built("workloads")
        self.emulated = arguments.device == self.substitute

    @property
    def pairs(self):
        return [f"{i}-launches/{t}" for i in self.inference for t in self.training]

    def here(self, system):
        """The system as it is on this device; None if the device has no counterpart."""
        return emulated(system) if self.emulated else system

    def command(self, role):
        return [os.path.join(self.folder, self.programs[role.program]), *role.arguments]

    def environment(self, role):
        return {}


class PyTorch:
    """The programs of benchmarks/pytorch, run by Python: started plainly, or by `tally run`."""
    name = "pytorch"
    inference, forms = ["resnet50", "bert", "gpt2", "llama"], ["launches", "graph"]
    training = [f"{model}-{form}" for form in ("compiled", "eager") for model in ("resnet50", "gpt2", "dlrm", "unet")]
    quick = ["resnet50-graph/gpt2-compiled", "gpt2-graph/unet-compiled", "bert-launches/resnet50-eager", "llama-graph/dlrm-eager"]
    groups = {form: [f"{pair}-{form}" for pair in TWELVE] for form in ("compiled", "eager")}
    systems, full_systems, quick_systems = PYTORCH, list(PYTORCH), [name for name in PYTORCH if name != "alone-flushed"]
    system_groups = {}
    compared, fewer = list(PYTORCH), 1
    substitute = "cpu"
    timeline = False
    keeps_processes = True  # PyTorch takes about ten seconds to start
    patience = 300.0  # seconds for an answer

    def __init__(self, arguments):
        self.program = os.path.join(arguments.programs or os.path.join(BENCHMARKS, "pytorch"), "program.py")
        self.device = arguments.device
        self.launcher = arguments.launcher or launcher_here()
        self.cache = os.path.abspath(arguments.cache or os.path.join(arguments.out, "cache"))

    @property
    def pairs(self):
        return self.groups["compiled"] + self.groups["eager"]

    def here(self, system):
        if self.device == "cuda":
            return system
        return None if system.server.mps else system

    def command(self, role):
        program = [sys.executable, self.program, f"--device={self.device}"]
        if role.program == "plain":
            return program
        if not self.launcher:
            raise ValueError("no tally here: --launcher names it")
        effort = ["--best-effort"] if ("TALLY_CLASS", "best-effort") in role.environment else []
        return [self.launcher, "run", *effort, "--", *program]

    def environment(self, role):
        """prepare.py fills the caches; a process that only reads them starts no compiler processes."""
        places = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        if role.program != "plain":
            places["TALLY_VARIANTS"] = "variants"
        found = {variable: os.path.join(self.cache, place) for variable, place in places.items()}
        for place in found.values():
            os.makedirs(place, mode=0o700, exist_ok=True)
        return {"TORCHINDUCTOR_COMPILE_THREADS": "1", **found}


KINDS = {each.name: each for each in (Cuda, PyTorch)}
