"""A recommendation model in the shape of DLRM (Naumov and others, 2019): tables of features, products of all pairs,
two perceptrons."""
import torch
from torch import nn
from torch.nn import functional

from .task import Task, mixed, normal, numbers, sgd

SIZES = {"real": dict(tables=26, rows=40000, width=64, dense=13, bottom=(512, 256), top=(1024, 1024, 512)),
         "small": dict(tables=4, rows=50, width=8, dense=5, bottom=(16,), top=(16,))}


def perceptron(widths):
    parts = []
    for inputs, outputs in zip(widths, widths[1:]):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return parts


class Dlrm(nn.Module):
    def __init__(self, tables, rows, width, dense, bottom, top):
        super().__init__()
        self.table = nn.Embedding(tables * rows, width)  # all tables, one behind the other
        self.register_buffer("begins", torch.arange(tables) * rows)
        self.bottom = nn.Sequential(*perceptron([dense, *bottom, width]))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(*perceptron([width + pairs, *top]), nn.Linear(top[-1], 1))
        first, second = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", first * (tables + 1) + second)
        nn.init.uniform_(self.table.weight, -rows ** -0.5, rows ** -0.5)

    def forward(self, dense, sparse):
        below = self.bottom(dense)
        features = torch.cat([below[:, None], self.table(sparse + self.begins).to(below.dtype)], 1)
        products = (features @ features.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([below, products], 1)).squeeze(1)


def training(size, device):
    shape, batch = SIZES[size], 8192 if size == "real" else 16
    torch.manual_seed(12)
    with torch.device(device):
        model = Dlrm(**shape)
    batches = [(normal(batch, shape["dense"], seed=seed, device=device), numbers(shape["rows"], batch, shape["tables"], seed=seed, device=device),
                numbers(2, batch, seed=seed + 100, device=device).float()) for seed in (13, 14)]

    def loss(dense, sparse, clicked):
        with mixed(device):
            guessed = model(dense, sparse)
        return functional.binary_cross_entropy_with_logits(guessed.float(), clicked)
    # PyTorch adds the gradients of the table without its deterministic algorithms, as programs usually do: these would
    # take 40 small kernels a step, and one of 0.5 ms.
    return Task(model, loss, batches, sgd(model, lr=0.1), repeats=False)
