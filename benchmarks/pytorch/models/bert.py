"""BERT-base (Devlin and others, 2018): an encoder; the answer is the pooled first position."""
import torch
from torch import nn
from torch.nn import functional

from .task import numbers

SIZES = {"real": dict(layers=12, width=768, heads=12, words=30522, positions=512), "small": dict(layers=2, width=32, heads=2, words=100, positions=32)}


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.after_attention, self.after_products = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.query_key_value(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, length, width)
        x = self.after_attention(x + self.out(seen))
        return self.after_products(x + self.down(functional.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers, width, heads, words, positions):
        super().__init__()
        self.words, self.kinds = nn.Embedding(words, width), nn.Embedding(2, width)
        self.positions, self.norm = nn.Embedding(positions, width), nn.LayerNorm(width, 1e-12)
        self.layers, self.pool = nn.Sequential(*(Layer(width, heads) for _ in range(layers))), nn.Linear(width, width)
        for each in self.modules():
            if isinstance(each, (nn.Linear, nn.Embedding)):
                nn.init.normal_(each.weight, std=0.02)

    def forward(self, words, kinds):
        x = self.words(words) + self.kinds(kinds) + self.positions.weight[:words.shape[1]]
        return torch.tanh(self.pool(self.layers(self.norm(x))[:, 0]))


def inference(size, device, dtype):
    """One text of 128 words a request."""
    torch.manual_seed(5)
    with torch.device(device):
        model = Bert(**SIZES[size]).to(dtype).eval()
    words = numbers(SIZES[size]["words"], 1, 128 if size == "real" else 16, seed=6, device=device)
    kinds = torch.zeros_like(words)
    return lambda: model(words, kinds)
