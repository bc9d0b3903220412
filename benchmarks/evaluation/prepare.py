"""Fills the caches of PyTorch's compiled trainings before any measurement, with no other program on the GPU: the
timings by which Inductor and Triton choose a kernel are then right, and measured processes only read the caches.
Preparation also finds out whether a training repeats its figures bit by bit, and lists its kernels."""
import json
import os
import shutil
import sys
import tempfile
import time

from two_processes import Ended, Process

SECONDS = 3  # of training; on the CPU less
STEPS = 3  # whose kernels are listed
TOLERANCE = 0.02  # fraction of a loss, for trainings that do not repeat their bits
QUIET, AT_MOST = 5, 180  # seconds without a new variant after which the variants count as complete; longest wait in seconds


def place(models, name):
    os.makedirs(models.cache, exist_ok=True)
    return os.path.join(models.cache, name)


def kernels(models):
    """The kernels of a few steps of each training, as [name, begin, microseconds]."""
    found = {}
    for training in models.training:
        path = os.path.join(getattr(models, "cache", ""), f"kernels-{training}.json")
        if os.path.exists(path):
            with open(path) as file:
                found[training] = json.load(file)["kernels"]
    return found


def train(process, seconds):
    begin = process.ask("train")["now"]
    time.sleep(seconds)
    return process.ask("stop", begin, begin + int(seconds * 1e9))["figures"]


def fill(arguments, training, seconds):
    """Compiles the training. Returns its facts."""
    models, role = arguments.models, arguments.models.systems["alone"].trainer
    began = time.monotonic()
    environment = models.environment(role)
    del environment["TORCHINDUCTOR_COMPILE_THREADS"]  # as many as PyTorch takes
    process = Process(models.command(role), environment)
    gpu = process.ask("facts")["gpu"]
    found = process.ask("training", training, arguments.size)
    if "error" in found:
        raise ValueError(f"{training}: {found['error']}")
    first, second = train(process, seconds), train(process, seconds)
    steps = min(len(first), len(second))
    kept = process.ask("kernels", STEPS, place(models, f"kernels-{training}.json"))
    process.end()
    return {"gpu": gpu, "size": arguments.size, "seconds": round(time.monotonic() - began, 1), "steps": steps,
            "repeats": first[:steps] == second[:steps], "kernels": kept["kernels"]}


def newest(folder):
    """Time at which the last bundle came. Other processes remove other files during the search."""
    return max([os.stat(os.path.join(folder, name)).st_mtime for name in os.listdir(folder) if name.endswith(".tally")], default=0)


def variants(arguments, training):
    """Runs the training under Tally, alone, until no new variants come. Returns the seconds that it took."""
    models, role = arguments.models, arguments.models.systems["tally-time-slicing"].trainer
    folder, began = tempfile.mkdtemp(prefix="tally-benchmark-"), time.time()
    try:
        environment = {**models.environment(role), **dict(role.environment), "TALLY_ARENA": folder}
        process = Process(models.command(role), environment)
        process.ask("training", training, arguments.size)
        process.ask("train")
        store = environment["TALLY_VARIANTS"]
        trains = time.time()
        while time.time() - began < AT_MOST and time.time() - max(newest(store), trains) < QUIET:
            time.sleep(0.5)
        process.ask("stop", 0, 0)
        process.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return round(time.time() - began, 1)


def makes_kernels(arguments, training):
    """Whether the training compiles kernels that need variants of Tally."""
    return arguments.device == "cuda" and arguments.models.launcher and training.endswith("-compiled")


def prepare(arguments, trainings, deadline):
    """Returns whether all trainings are prepared, and the nonzero tolerances of figures by training."""
    path = place(arguments.models, "prepared.json")
    known = {}
    if os.path.exists(path):
        with open(path) as file:
            known = json.load(file)

    def keep(training, find):
        """Keeps the facts. The function reports a training that does not run; the other trainings are measured."""
        print(f"preparing {training}{' under tally' if training in known else ''}", file=sys.stderr, flush=True)
        try:
            known[training] = {**known.get(training, {}), **find()}
        except Ended as trouble:
            print(f"{training} cannot be prepared: {trouble}", file=sys.stderr)
            return
        with open(path, "w") as file:
            json.dump(known, file, indent=1)
    for training in dict.fromkeys(trainings):
        if known.get(training, {}).get("size") != arguments.size:
            if time.monotonic() > deadline:
                return False, {}
            known.pop(training, None)
            keep(training, lambda: fill(arguments, training, SECONDS if arguments.size == "real" else 0.3))
        if makes_kernels(arguments, training) and training in known and "variants_s" not in known[training]:
            if time.monotonic() > deadline:
                return False, {}
            keep(training, lambda: {"variants_s": variants(arguments, training)})
    inexact = [training for training in dict.fromkeys(trainings) if not known.get(training, {}).get("repeats", True)]
    for training in inexact:
        print(f"{training} does not repeat its bits: its first losses are compared to within {TOLERANCE:.0%}", file=sys.stderr)
    return True, dict.fromkeys(inexact, TOLERANCE)
