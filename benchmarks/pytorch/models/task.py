"""A training task, which each model's file gives to the programs that train: a model, its loss, its batches and its
optimizer."""
import contextlib
import dataclasses

import torch


@dataclasses.dataclass
class Task:
    model: torch.nn.Module
    loss: object  # loss(*batch) -> a scalar tensor
    batches: list  # tuples of tensors on the device, used in turn
    optimizer: object  # optimizer(compiled) -> an optimizer for the model's parameters
    repeats: bool = True  # by PyTorch's deterministic algorithms


def mixed(device):
    """bfloat16 for the operations that support it, as in trainings on a GPU; single precision on the CPU."""
    return torch.autocast("cuda", torch.bfloat16) if device == "cuda" else contextlib.nullcontext()


def adamw(model, device, rate):
    """An eager step uses PyTorch's fused kernels; a compiled step uses operations from which Inductor makes Triton's
    kernels. The count of steps is on the device, so that a compiled step reads it there."""
    return lambda compiled: torch.optim.AdamW(model.parameters(), lr=rate, fused=not compiled, capturable=device == "cuda")


def sgd(model, **options):
    return lambda compiled: torch.optim.SGD(model.parameters(), **options)


def normal(*shape, seed, device):
    return torch.randn(*shape, generator=torch.Generator(device).manual_seed(seed), device=device)


def numbers(limit, *shape, seed, device):
    return torch.randint(0, limit, shape, generator=torch.Generator(device).manual_seed(seed), device=device)
