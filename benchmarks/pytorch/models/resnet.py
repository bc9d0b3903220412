"""ResNet-50 (He and others, 2015; the 3 x 3 convolution has the stride, as in torchvision)."""
import torch
from torch import nn
from torch.nn import functional

from .task import Task, mixed, normal, numbers, sgd

SIZES = {"real": dict(blocks=(3, 4, 6, 3), width=64, classes=1000), "small": dict(blocks=(1, 1, 1, 1), width=8, classes=10)}


class Convolution(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.first, self.second = Convolution(inputs, width, 1), Convolution(width, width, 3, stride)
        self.third = Convolution(width, outputs, 1)
        self.shortcut = Convolution(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.first(x), inplace=True)
        y = functional.relu(self.second(y), inplace=True)
        return functional.relu(self.third(y) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes):
        super().__init__()
        self.stem = Convolution(3, width, 7, 2)
        inputs, stages = width, []
        for stage, count in enumerate(blocks):
            for i in range(count):
                stages.append(Bottleneck(inputs, width << stage, 2 if stage > 0 and i == 0 else 1))
                inputs = 4 * (width << stage)
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(inputs, classes)
        for each in self.modules():
            if isinstance(each, nn.Conv2d):
                nn.init.kaiming_normal_(each.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.stem(x), inplace=True), 3, 2, 1)
        return self.head(self.stages(x).mean((2, 3)))


def images(size, batch, seed, device):
    extent = 224 if size == "real" else 32
    return normal(batch, 3, extent, extent, seed=seed, device=device).contiguous(memory_format=torch.channels_last)


def make(size, device):
    torch.manual_seed(1)
    with torch.device(device):
        return ResNet(**SIZES[size]).to(memory_format=torch.channels_last)


def inference(size, device, dtype):
    """One picture a request."""
    model, picture = make(size, device).to(dtype).eval(), images(size, 1, 2, device).to(dtype)
    return lambda: model(picture)


def training(size, device):
    model, batch = make(size, device), 64 if size == "real" else 4
    batches = [(images(size, batch, seed, device), numbers(SIZES[size]["classes"], batch, seed=seed, device=device)) for seed in (3, 4)]

    def loss(pictures, classes):
        with mixed(device):
            return functional.cross_entropy(model(pictures), classes)
    return Task(model, loss, batches, sgd(model, lr=0.02, momentum=0.9, weight_decay=1e-4))
