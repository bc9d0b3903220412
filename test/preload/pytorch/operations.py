"""Operations of libraries: products, convolutions, attention, linear algebra, transforms, sparse, random numbers."""
import torch
from torch.nn import functional

from program import device, program, randn, seeded


@program
def products_of_all_types():
    results = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        a, b = randn(256, 192, seed=1, dtype=dtype), randn(192, 320, seed=2, dtype=dtype)
        results += [a @ b, torch.addmm(randn(256, 320, seed=3, dtype=dtype), a, b)]
    return results


@program
def products_with_odd_extents():
    return [randn(m, k, seed=m, dtype=torch.bfloat16) @ randn(k, n, seed=n, dtype=torch.bfloat16)
            for m, k, n in ((1, 1, 1), (33, 65, 129), (257, 255, 7), (5, 1000, 3))]


@program
def batched_products_and_einsum():
    a, b = randn(8, 64, 48, seed=4), randn(8, 48, 32, seed=5)
    return torch.bmm(a, b), torch.einsum("bik,bkj->ij", a, b), torch.baddbmm(randn(8, 64, 32, seed=6), a, b)


@program
def integer_products():
    a = torch.randint(-128, 127, (64, 64), generator=seeded(7), dtype=torch.int8).to(device)
    return torch._int_mm(a, a)


@program
def convolutions():
    x = randn(4, 16, 24, 24, seed=8)
    return [functional.conv2d(x, randn(32, 16, 3, 3, seed=9), padding=1),
            functional.conv2d(x, randn(16, 1, 5, 5, seed=10), groups=16),
            functional.conv_transpose2d(x, randn(16, 8, 2, 2, seed=11), stride=2),
            functional.conv1d(x.flatten(2), randn(8, 16, 7, seed=12)),
            functional.conv3d(x.unsqueeze(2), randn(8, 16, 1, 3, 3, seed=13))]


@program
def pooling_padding_and_interpolation():
    x = randn(2, 8, 30, 30, seed=14)
    return [functional.max_pool2d(x, 3), functional.avg_pool2d(x, 2), functional.adaptive_avg_pool2d(x, 7),
            functional.pad(x, (1, 2, 3, 4), "reflect"), functional.interpolate(x, scale_factor=2, mode="bilinear"),
            functional.grid_sample(x, randn(2, 10, 10, 2, seed=15), align_corners=False)]


@program
def attention_by_each_backend():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (randn(2, 4, 128, 64, seed=seed, dtype=torch.float16) for seed in (16, 17, 18))
    results = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        with sdpa_kernel(backend):
            try:
                results.append(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
            except RuntimeError as error:
                results.append(f"{backend}: {type(error).__name__}")
    return results


@program
def normalisations():
    x = randn(32, 64, 16, seed=19)
    return [functional.layer_norm(x, (16,)), functional.rms_norm(x, (16,)), functional.softmax(x, 1),
            functional.log_softmax(x, 2), functional.instance_norm(x), functional.normalize(x)]


@program
def linear_algebra():
    a = randn(48, 48, seed=20, dtype=torch.float64)
    spd = a @ a.T + 48 * torch.eye(48, device=device, dtype=torch.float64)
    return [torch.linalg.cholesky(spd), torch.linalg.solve(spd, a), torch.linalg.svdvals(a), torch.linalg.eigvalsh(spd),
            torch.linalg.qr(a)[1].abs(), torch.linalg.inv(spd), torch.linalg.det(spd / 48), torch.linalg.lu_factor(spd)[0]]


@program
def fourier_transforms():
    x = randn(16, 1000, seed=21)
    spectrum = torch.fft.rfft(x)
    return [torch.view_as_real(spectrum), torch.fft.irfft(spectrum, 1000), torch.view_as_real(torch.fft.fft2(x)),
            torch.view_as_real(torch.stft(x[0], 64, window=torch.hann_window(64, device=device), return_complex=True))]


@program
def sparse_products():
    dense = randn(64, 64, seed=22) * (randn(64, 64, seed=23) > 1)
    return [torch.sparse.mm(dense.to_sparse(), randn(64, 32, seed=24)), dense.to_sparse_csr() @ randn(64, 32, seed=25),
            dense.to_sparse().coalesce().values()]


@program
def sorting_and_searching():
    x = randn(50000, seed=26)
    return [x.sort()[0], x.topk(100)[0], x.argsort(stable=True), x.unique(), x.kthvalue(17)[0], x.median(), x.nonzero(),
            torch.searchsorted(x.sort()[0], randn(100, seed=27)), torch.histc(x, 50, -3, 3), x.mode()[0]]


@program
def scans_and_reductions():
    x = randn(300, 500, seed=28)
    return [x.cumsum(0), x.cumprod(1), x.logcumsumexp(1), x.sum(), x.std(1), x.amax(0), x.argmin(1), x.norm(), torch.var_mean(x, 1)[0], (x > 0).sum(1)]


@program
def indexing_and_scatter():
    x = randn(200, 100, seed=29)
    rows = torch.randint(0, 200, (500,), generator=seeded(30)).to(device)
    torch.use_deterministic_algorithms(True, warn_only=True)
    return [x[rows], x.index_select(0, rows), torch.zeros(200, 100, device=device).index_add_(0, rows, x[rows]),
            x.gather(1, rows[:100].remainder(100).expand(200, 100)), x.masked_fill(x > 0, 7), x.roll(3, 1), x[x > 1]]


@program
def random_numbers():
    torch.manual_seed(31)
    return [torch.rand(1000, device=device), torch.randn(1000, device=device), torch.randperm(1000, device=device),
            torch.multinomial(torch.ones(100, device=device), 20), functional.dropout(torch.ones(1000, device=device), 0.3),
            torch.empty(1000, device=device).exponential_(), torch.bernoulli(torch.full((1000,), 0.3, device=device))]


@program
def complex_and_special_functions():
    x = randn(1000, seed=32)
    z = torch.complex(x, randn(1000, seed=33))
    return [torch.view_as_real(z.exp()), torch.special.gammaln(x.abs()), torch.special.erfinv(x.tanh()), torch.special.i0(x),
            torch.view_as_real((z * z.conj()).sqrt()), torch.special.zeta(x.abs() + 1.5, 2.0)]


@program
def generation_with_a_cache():
    """Greedy tokens of a small decoder, step by step, as a server makes them."""
    torch.manual_seed(34)
    width, words = 64, 500
    embedding, out = (randn(words, width, seed=seed) / 8 for seed in (35, 36))
    project = [randn(width, 3 * width, seed=seed) / 8 for seed in (37, 38)]
    caches = [(torch.empty(1, 4, 0, 16, device=device), torch.empty(1, 4, 0, 16, device=device)) for _ in project]
    token, made = 1, []
    for _ in range(40):
        x = embedding[token].view(1, 1, width)
        for layer, weights in enumerate(project):
            q, k, v = (part.view(1, 1, 4, 16).transpose(1, 2) for part in (x @ weights).split(width, 2))
            caches[layer] = (torch.cat((caches[layer][0], k), 2), torch.cat((caches[layer][1], v), 2))
            x = x + functional.scaled_dot_product_attention(q, *caches[layer]).transpose(1, 2).reshape(1, 1, width)
        token = int((x.view(width) @ out.T).argmax())
        made.append(token)
    return made
