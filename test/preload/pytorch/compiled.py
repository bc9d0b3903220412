"""Programs that compile kernels at run time: Triton, Inductor, NVRTC, CuPy, JAX."""
import torch

from program import device, program, randn
from training import mlp, squares


@program
def triton_kernels():
    import triton_kernels
    return triton_kernels.run(device)


@program
def triton_autotuned():
    import triton_kernels
    return triton_kernels.tuned(device)


@program
def inductor_forward_and_backward():
    model, x = mlp(seed=1), randn(64, 256, seed=2)
    compiled = torch.compile(model)
    for _ in range(10):
        squares(x)(compiled).backward()
    return [each.grad for each in model.parameters()]


@program
def inductor_pointwise_and_reductions():
    @torch.compile
    def fused(x, y):
        z = torch.nn.functional.gelu(x * 2 + y).softmax(1)
        return z.sum(0), (z * x).amax(1), torch.where(z > 0.01, z, -z)
    results = []
    for rows in (64, 100, 257):
        results += fused(randn(rows, 300, seed=rows), randn(rows, 300, seed=rows + 1))
    return results


@program
def inductor_in_graphs():
    model = mlp(seed=3)
    compiled = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        return [compiled(randn(64, 256, seed=seed)).clone() for seed in range(8)]


@program
def inductor_training():
    model, x = mlp(128, seed=4), randn(64, 128, seed=5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)

    @torch.compile
    def loss_of(x):
        return squares(x)(model)
    for _ in range(30):
        optimizer.zero_grad()
        loss_of(x).backward()
        optimizer.step()
    return list(model.parameters())


@program
def jiterator():
    twice = torch.cuda.jiterator._create_jit_fn("template <typename T> T twice(T x, T a) { return x * x + a; }", a=1.0)
    return twice(torch.arange(10000, device=device).float()), twice(randn(1000, seed=6), a=3.0)


@program
def operators_of_its_own():
    @torch.library.custom_op("preload_test::shifted", mutates_args=())
    def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
        return x + by
    return torch.ops.preload_test.shifted(randn(100, seed=7), 2.5)


@program
def cupy_kernels():
    import cupy
    source = r"""extern "C" __global__ void f(float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = x[i] * 0.5f + 1;
    }"""
    kernel = cupy.RawKernel(source, "f")
    x = cupy.arange(100000, dtype=cupy.float32)
    for _ in range(50):
        kernel((400,), (256,), (x, 100000))
    fused = cupy.ElementwiseKernel("float32 a, float32 b", "float32 c", "c = a * b + 1", "fused")
    return [torch.from_numpy(cupy.asnumpy(each)) for each in (x, fused(x, x), cupy.cumsum(x), cupy.sort(x)[::7])]


@program(alone=True)
def jax_training():
    import os
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    import numpy
    x = jnp.asarray(numpy.random.default_rng(0).standard_normal((64, 32), dtype=numpy.float32))
    weights = jnp.asarray(numpy.random.default_rng(1).standard_normal((32, 32), dtype=numpy.float32)) / 8

    @jax.jit
    def step(weights):
        return weights - 0.1 * jax.grad(lambda w: jnp.square(jnp.tanh(x @ w) - x).mean())(weights)
    for _ in range(50):
        weights = step(weights)
    return torch.from_numpy(numpy.array(weights))


@program(alone=True)
def numba_kernels():
    import numpy
    from numba import cuda

    @cuda.jit
    def scale(x, factor):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * factor + i
    x = cuda.to_device(numpy.ones(10000, dtype=numpy.float32))
    for _ in range(20):
        scale[40, 256](x, numpy.float32(0.5))
    return torch.from_numpy(x.copy_to_host())
