"""GPT-2 (Radford and others, 2019), the small one; its vocabulary is padded to a multiple of 64, as docs/guide/pytorch.md advises."""
import torch
from torch import nn
from torch.nn import functional

from .generation import Cache, Generation
from .task import Task, adamw, mixed, numbers

SIZES = {"real": dict(layers=12, width=768, heads=12, words=50304, positions=1024), "small": dict(layers=2, width=32, heads=2, words=64, positions=32)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_products = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def products(self, x):
        return x + self.down(functional.gelu(self.up(self.before_products(x)), approximate="tanh"))

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.query_key_value(self.before_attention(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.products(x + self.out(seen.transpose(1, 2).reshape(batch, length, width)))

    def step(self, x, position, cache):
        query, key, value = self.query_key_value(self.before_attention(x)).chunk(3, -1)
        return self.products(x + self.out(cache.attend(query, key, value, position)))


class Gpt2(nn.Module):
    def __init__(self, layers, width, heads, words, positions):
        super().__init__()
        self.words, self.positions, self.norm = nn.Embedding(words, width), nn.Embedding(positions, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        for each in self.modules():
            if isinstance(each, (nn.Linear, nn.Embedding)):
                nn.init.normal_(each.weight, std=0.02)

    def forward(self, words):
        x = self.words(words) + self.positions.weight[:words.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.words.weight)

    def step(self, word, position, caches):
        x = self.words(word) + self.positions(position)
        for block, cache in zip(self.blocks, caches):
            x = block.step(x, position, cache)
        return functional.linear(self.norm(x), self.words.weight)


def make(size, device):
    torch.manual_seed(8)
    with torch.device(device):
        return Gpt2(**SIZES[size])


def inference(size, device, dtype):
    """One step of generation a request: the word after a prompt of 512, and so on, for 32 words."""
    shape, model = SIZES[size], make(size, device).to(dtype).eval()
    caches = [Cache(shape["heads"], shape["positions"], shape["width"] // shape["heads"], device, dtype) for _ in range(shape["layers"])]
    prompt, steps = (512, 32) if size == "real" else (5, 4)
    return Generation(model.step, caches, shape["words"], steps, prompt, device)


def training(size, device):
    model, (batch, length) = make(size, device), (4, 1024) if size == "real" else (2, 16)
    texts = [numbers(SIZES[size]["words"], batch, length + 1, seed=seed, device=device) for seed in (9, 10)]

    def loss(words, following):
        with mixed(device):
            return functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
    batches = [(text[:, :-1].contiguous(), text[:, 1:].contiguous()) for text in texts]
    return Task(model, loss, batches, adamw(model, device, 3e-4))
