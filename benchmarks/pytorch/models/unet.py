"""A U-Net that removes noise from pictures (Ho and others, 2020): residual blocks with the time as an input,
attention in the lower half."""
import math

import torch
from torch import nn
from torch.nn import functional

from .task import Task, adamw, mixed, normal, numbers

SIZES = {"real": dict(width=128, levels=(1, 2, 2, 2), attention=(1, 2), extent=32), "small": dict(width=16, levels=(1, 2), attention=(1,), extent=8)}
GROUPS, TIMES = 8, 1000


class Residual(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.first_norm, self.first = nn.GroupNorm(GROUPS, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second_norm, self.second = nn.GroupNorm(GROUPS, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.shortcut = nn.Linear(time, outputs), nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        y = self.first(functional.silu(self.first_norm(x))) + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.second(functional.silu(self.second_norm(y)))


class Attention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(GROUPS, width)
        self.query_key_value, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, high, wide = x.shape
        query, key, value = self.query_key_value(self.norm(x)).reshape(batch, 3, self.heads, -1, high * wide).transpose(3, 4).unbind(1)
        seen = functional.scaled_dot_product_attention(query.contiguous(), key.contiguous(), value.contiguous())
        return x + self.out(seen.transpose(2, 3).reshape(batch, width, high, wide))


class Up(nn.Module):
    """Each pixel becomes four pixels, by expand(), since the gradient of interpolate() adds in no fixed order."""

    def __init__(self, width):
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        batch, width, high, wide = x.shape
        return self.convolution(x[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2).reshape(batch, width, 2 * high, 2 * wide))


class UNet(nn.Module):
    def __init__(self, width, levels, attention, extent):
        super().__init__()
        time, here, kept = 4 * width, width, [width]
        half = width // 2
        self.register_buffer("rates", torch.exp(-math.log(10000) * torch.arange(half) / half))
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.begin, self.down, self.up = nn.Conv2d(3, width, 3, padding=1), nn.ModuleList(), nn.ModuleList()

        def block(inputs, outputs, level):
            return nn.ModuleList([Residual(inputs, outputs, time), Attention(outputs) if level in attention else nn.Identity()])
        for level, factor in enumerate(levels):
            for _ in range(2):
                self.down.append(block(here, factor * width, level))
                here = factor * width
                kept.append(here)
            if level + 1 < len(levels):
                self.down.append(nn.Conv2d(here, here, 3, 2, 1))
                kept.append(here)
        self.middle = nn.ModuleList([Residual(here, here, time), Attention(here), Residual(here, here, time)])
        for level, factor in reversed(list(enumerate(levels))):
            for _ in range(3):
                self.up.append(block(here + kept.pop(), factor * width, level))
                here = factor * width
            if level > 0:
                self.up.append(Up(here))
        self.norm, self.end = nn.GroupNorm(GROUPS, here), nn.Conv2d(here, 3, 3, padding=1)

    def forward(self, x, times):
        angles = times[:, None].float() * self.rates
        time, x = self.time(torch.cat([angles.sin(), angles.cos()], 1)), self.begin(x)
        kept = [x]
        for each in self.down:
            x = each[1](each[0](x, time)) if isinstance(each, nn.ModuleList) else each(x)
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for each in self.up:
            x = each[1](each[0](torch.cat([x, kept.pop()], 1), time)) if isinstance(each, nn.ModuleList) else each(x)
        return self.end(functional.silu(self.norm(x)))


def training(size, device):
    shape, batch = SIZES[size], 64 if size == "real" else 2
    torch.manual_seed(15)
    with torch.device(device):
        model = UNet(**shape).to(memory_format=torch.channels_last)
        left = torch.cumprod(1 - torch.linspace(1e-4, 0.02, TIMES), 0)  # square of the factor of the picture, by time

    def batch_of(seed):
        picture, noise = (normal(batch, 3, shape["extent"], shape["extent"], seed=seed + i, device=device) for i in range(2))
        times = numbers(TIMES, batch, seed=seed, device=device)
        part = left[times][:, None, None, None]
        noisy = (part.sqrt() * picture + (1 - part).sqrt() * noise).contiguous(memory_format=torch.channels_last)
        return noisy, times, noise

    def loss(noisy, times, noise):
        with mixed(device):
            found = model(noisy, times)
        return functional.mse_loss(found.float(), noise)
    return Task(model, loss, [batch_of(16), batch_of(18)], adamw(model, device, 2e-4))
