"""A model in the shape of Llama (Touvron and others, 2023), of 1.04 B random parameters: root mean square norms,
rotary positions, heads that share keys and values, gated products. It generates words; its output layer shares the
weights of the word table."""
import torch
from torch import nn
from torch.nn import functional

from .generation import Cache, Generation

SIZES = {"real": dict(layers=16, width=2048, heads=32, shared=8, inner=8192, words=32000),
         "small": dict(layers=2, width=32, heads=4, shared=2, inner=64, words=64)}


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.rms_norm(x, self.weight.shape, self.weight, 1e-5)


def rotated(x, cosine, sine):
    """`x`: a row for each head; its two halves are the coordinates of the rotated planes."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, width, heads, shared, inner):
        super().__init__()
        self.heads, self.shared, each = heads, shared, width // heads
        self.before_attention, self.before_products = Norm(width), Norm(width)
        self.query, self.key = nn.Linear(width, width, bias=False), nn.Linear(width, shared * each, bias=False)
        self.value, self.out = nn.Linear(width, shared * each, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, position, turn, cache):
        y = self.before_attention(x)
        query, key = rotated(self.query(y).view(self.heads, -1), *turn), rotated(self.key(y).view(self.shared, -1), *turn)
        x = x + self.out(cache.attend(query, key, self.value(y), position))
        y = self.before_products(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, shared, inner, words, positions):
        super().__init__()
        self.words, self.norm = nn.Embedding(words, width), Norm(width)
        self.layers = nn.ModuleList(Layer(width, heads, shared, inner) for _ in range(layers))
        for each in self.modules():
            if isinstance(each, (nn.Linear, nn.Embedding)):
                nn.init.normal_(each.weight, std=0.02)
        half = width // heads // 2
        angle = torch.outer(torch.arange(positions).float(), 10000.0 ** (-torch.arange(half).float() / half))
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, word, position, caches):
        x, turn = self.words(word), (self.cosine[position], self.sine[position])
        for layer, cache in zip(self.layers, caches):
            x = layer(x, position, turn, cache)
        return functional.linear(self.norm(x), self.words.weight)


def inference(size, device, dtype):
    """One step of generation a request: the word after a prompt of 512, and so on, for 32 words."""
    shape = SIZES[size]
    prompt, steps, length = (512, 32, 1024) if size == "real" else (5, 4, 16)
    torch.manual_seed(11)
    with torch.device(device):
        # Made in the precision of its use: in single precision it would not fit beside large trainings.
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            model = Llama(**shape, positions=length).eval()
        finally:
            torch.set_default_dtype(before)
    caches = [Cache(shape["shared"], length, shape["width"] // shape["heads"], device, dtype) for _ in range(shape["layers"])]
    return Generation(model, caches, shape["words"], steps, prompt, device)
