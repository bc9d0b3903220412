"""A model that writes one word a step, each after the words before it, with a cache of keys and values."""
import torch

from .task import numbers


class Cache:
    """The cache of one layer. Its length is fixed, so a step is the same launches at every position and can be a
    CUDA graph."""

    def __init__(self, heads, length, width, device, dtype):
        self.keys, self.values = (torch.zeros(heads, length, width, device=device, dtype=dtype) for _ in range(2))
        self.places = torch.arange(length, device=device)

    def attend(self, query, key, value, position):
        """`query`: a row for each head; `key` has fewer heads, each shared by several query heads. Keeps key and
        value at `position`."""
        heads, _, width = self.keys.shape
        self.keys.index_copy_(1, position, key.view(heads, 1, width))
        self.values.index_copy_(1, position, value.view(heads, 1, width))
        scores = query.view(heads, -1, width) @ self.keys.transpose(1, 2) * width ** -0.5
        scores = scores.float().masked_fill(self.places > position, -torch.inf)
        return (scores.softmax(-1).to(query.dtype) @ self.values).reshape(1, -1)


class Generation:
    """Each call is a step: it reads a word and writes the next one. After `steps` words the generation begins again
    at the prompt's end, so step i has the answer of step i + steps. Word and position stay on the device."""

    def __init__(self, model, caches, words, steps, prompt, device):
        self.model, self.caches, self.cycle = model, caches, steps
        begin = prompt - 1
        text = numbers(words, prompt, seed=7, device=device)
        self.word, self.position = text[:1].clone(), torch.zeros(1, dtype=torch.long, device=device)
        self.first, self.begin, self.end = text[-1:].clone(), torch.full_like(self.position, begin), torch.full_like(self.position, prompt + steps - 2)
        with torch.inference_mode():
            for place in range(begin):
                self.word.copy_(text[place:place + 1])
                self.position.fill_(place)
                self.model(self.word, self.position, self.caches)
        self.word.copy_(self.first)
        self.position.copy_(self.begin)

    def __call__(self):
        """The word, its logit and the sum of all logits, which depend on every computed value."""
        logits = self.model(self.word, self.position, self.caches).float().view(-1)
        word = logits.argmax(0, keepdim=True)
        last = self.position == self.end
        self.word.copy_(torch.where(last, self.first, word))
        self.position.copy_(torch.where(last, self.begin, self.position + 1))
        return torch.cat([word.float(), logits.amax(0, keepdim=True), logits.sum(0, keepdim=True)])
