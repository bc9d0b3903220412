"""Programs to compare with and without Tally: functions that return tensors, by name, and a digest of the tensors."""
import hashlib
import os

import torch

device = os.environ.get("PROGRAM_DEVICE", "cuda")
programs = {}


def program(function=None, *, alone=False):
    """`alone`: the program leaves the device in an error state, or starts processes, so it gets a process of its
    own."""
    def enter(function):
        function.alone = alone
        programs[function.__name__] = function
        return function
    return enter(function) if function else enter


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0, dtype=torch.float32):
    """Random numbers that are the same on every machine, since the host makes them."""
    return torch.randn(*shape, generator=seeded(seed)).to(device=device, dtype=dtype)


def bytes_of(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return repr(value).encode()


def digest(result):
    """The digest of a tensor, or of several results."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(bytes_of(part) + b"|")
    return hashed.hexdigest()[:16]
