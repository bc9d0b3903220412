"""Trainings: parameters after some steps."""
import torch
from torch import nn
from torch.nn import functional

from program import device, program, randn, seeded


def mlp(width=256, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.LayerNorm(4 * width),
                         nn.Linear(4 * width, width)).to(device)


def train(model, optimizer, loss_of, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
    return [loss.detach(), *model.parameters()]


def squares(x):
    return lambda model: (model(x) - x).square().mean()


@program
def train_mlp_adamw_fused():
    model = mlp()
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True), squares(randn(512, 256, seed=1)), 100)


@program
def train_mlp_sgd_foreach():
    model = mlp(seed=1)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=True),
                 squares(randn(256, 256, seed=2)), 100)


@program
def train_mlp_gradient_accumulation():
    model, x = mlp(seed=2), randn(128, 256, seed=3)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for _ in range(20):
        optimizer.zero_grad()
        for part in x.split(32):
            squares(part)(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return list(model.parameters())


@program
def train_convolutions():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(64, 10)).to(device)
    x = randn(64, 3, 32, 32, seed=4)
    y = torch.randint(0, 10, (64,), generator=seeded(5)).to(device)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                 lambda model: functional.cross_entropy(model(x), y), 50)


def encoder(seed, layers=2):
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(128, 4, 256, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)


@program
def train_transformer_amp_half():
    model, x = encoder(0), randn(16, 64, 128, seed=6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(device)
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = squares(x)(model)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return [loss.detach(), *model.parameters()]


@program
def train_transformer_amp_bfloat16():
    model, x = encoder(1), randn(16, 64, 128, seed=7)

    def loss_of(model):
        with torch.autocast(device, dtype=torch.bfloat16):
            return squares(x)(model)
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-4), loss_of, 30)


@program
def train_with_checkpointing():
    from torch.utils.checkpoint import checkpoint
    blocks = nn.ModuleList(mlp(128, seed) for seed in range(3))
    x = randn(64, 128, seed=8)

    def loss_of(blocks):
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=False)
        return (y - x).square().mean()
    return train(blocks, torch.optim.Adam(blocks.parameters(), lr=1e-3), loss_of, 20)


@program
def train_recurrent():
    torch.manual_seed(3)
    model = nn.LSTM(32, 64, 2, batch_first=True).to(device)
    x, goal = randn(16, 20, 32, seed=9), randn(16, 20, 64, seed=10)
    return train(model, torch.optim.Adam(model.parameters(), lr=1e-3),
                 lambda model: (model(x)[0] - goal).square().mean(), 20)


@program
def train_embedding_bag():
    """As a recommender's tables."""
    torch.manual_seed(4)
    model = nn.EmbeddingBag(1000, 32, mode="sum").to(device)
    words = torch.randint(0, 1000, (64, 8), generator=seeded(11)).to(device)
    goal = randn(64, 32, seed=12)
    torch.use_deterministic_algorithms(True, warn_only=True)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda model: (model(words) - goal).square().mean(), 20)


@program
def autograd_function_of_its_own():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x ** 3

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            return 3 * x * x * gradient
    x = randn(1000, seed=13).requires_grad_()
    Cube.apply(x).sum().backward()
    return x.grad


@program
def second_derivatives():
    x = randn(64, seed=14).requires_grad_()
    (first,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return first.detach(), second


@program
def functional_transforms():
    from torch.func import grad, vmap
    weights, x = randn(32, seed=15), randn(100, 32, seed=16)
    return vmap(grad(lambda w, row: (w @ row).tanh()), in_dims=(None, 0))(weights, x)
