"""Triton kernels of the programs in compiled.py."""
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask) + tl.load(y + i, mask), mask)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + i, i < columns, -float("inf"))
    value = tl.exp(value - tl.max(value))
    tl.store(out + row * columns + i, value / tl.sum(value), i < columns)


@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    sum = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, k, BK):
        inner = begin + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * k + inner[None, :], (rows[:, None] < m) & (inner[None, :] < k), 0.0)
        right = tl.load(b + inner[:, None] * n + columns[None, :], (inner[:, None] < k) & (columns[None, :] < n), 0.0)
        sum = tl.dot(left, right, sum)
    tl.store(c + rows[:, None] * n + columns[None, :], sum, (rows[:, None] < m) & (columns[None, :] < n))


tuned_product = triton.autotune(
    [triton.Config({"BM": size, "BN": size, "BK": 32}, num_warps=warps) for size in (32, 64) for warps in (2, 4)],
    key=["m", "n", "k"])(product)


def inputs(device, m, n, k):
    made = torch.Generator().manual_seed(m)
    return (torch.randn(m, k, generator=made).to(device, torch.float16), torch.randn(k, n, generator=made).to(device, torch.float16),
            torch.empty(m, n, device=device))


def run(device):
    x, y = (torch.randn(100000, generator=torch.Generator().manual_seed(seed)).to(device) for seed in (1, 2))
    out = torch.empty_like(x)
    for _ in range(100):
        add[(triton.cdiv(100000, 1024),)](x, y, out, 100000, BLOCK=1024)
        x, out = out, x
    probabilities = torch.empty(200, 500, device=device)
    softmax[(200,)](x, probabilities, 500, BLOCK=512)
    a, b, c = inputs(device, 300, 200, 150)
    product[(triton.cdiv(300, 64), triton.cdiv(200, 64))](a, b, c, 300, 200, 150, BM=64, BN=64, BK=32)
    return x, probabilities, c


def tuned(device):
    """The result does not depend on the configuration: sums of halves in single precision are exact enough for
    rounding."""
    a, b, c = inputs(device, 512, 512, 512)
    tuned_product[lambda chosen: (triton.cdiv(512, chosen["BM"]), triton.cdiv(512, chosen["BN"]))](a, b, c, 512, 512, 512)
    return (c * 16).round()
