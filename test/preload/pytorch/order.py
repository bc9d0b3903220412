"""Programs that order work: streams, events, graphs, copies, threads, processes, allocators; and programs that fail."""
import threading

import torch

from program import device, program, randn, seeded
from training import mlp, squares


@program
def streams_and_events():
    a = torch.arange(1 << 18, device=device, dtype=torch.float32)
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for i in range(40):
        first.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(first):
            start.record()
            b = a * 0.5 + i
            end.record()
        second.wait_event(end)
        with torch.cuda.stream(second):
            c = b.sqrt() + b
            b.record_stream(second)
        torch.cuda.current_stream().wait_stream(second)
        a = c.abs()
        c.record_stream(torch.cuda.current_stream())
    torch.cuda.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    return a


@program
def events_are_polled():
    x, event, results = randn(512, 512, seed=1), torch.cuda.Event(), []
    for _ in range(20):
        x = torch.tanh(x @ x / 16)
        host = torch.empty(512, 512).pin_memory()
        host.copy_(x, non_blocking=True)
        event.record()
        while not event.query():
            pass
        results.append(host.clone())
    return results


@program
def memory_is_reused_behind_events():
    """The caching allocator gives a freed block to the next one, on the same stream and on another."""
    side, total = torch.cuda.Stream(), torch.zeros(1, device=device, dtype=torch.float64)
    for i in range(200):
        block = torch.full((1 << 16,), float(i), device=device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total += block.double().sum()
            block.record_stream(side)
        del block
    torch.cuda.current_stream().wait_stream(side)
    return total


def captured(step, warm=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


@program
def graph_of_inference():
    model, x = mlp(seed=3), randn(64, 256, seed=4)
    with torch.no_grad():
        graph, y = captured(lambda: model(x))
        sums = []
        for i in range(50):
            x.copy_(randn(64, 256, seed=100 + i))
            graph.replay()
            sums.append(y.sum())
    return sums


@program
def graph_of_a_training_step():
    model, x = mlp(seed=5), randn(64, 256, seed=6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = squares(x)(model)
        loss.backward()
        optimizer.step()
        return loss
    graph, loss = captured(step)
    for _ in range(50):
        graph.replay()
    return [loss.detach(), *model.parameters()]


@program
def graphs_between_launches():
    x = torch.zeros(1000, device=device)

    def step():
        x.add_(1)
        x.mul_(0.5)
    graph, _ = captured(step, warm=1)
    for i in range(60):
        graph.replay()
        x.add_(i)
    return x


@program
def pinned_and_pageable_copies():
    host = torch.randn(1 << 16, generator=seeded(7))
    pinned, back = host.pin_memory(), torch.empty_like(host).pin_memory()
    for i in range(30):
        on_device = pinned.to(device, non_blocking=True) * 2
        back.copy_(on_device, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        pinned.copy_(back / 2 + i)
        host = (host.to(device) + i).cpu()
    return host, pinned


@program
def strided_and_large_copies():
    x = randn(1000, 1000, seed=8)
    large = torch.arange(1 << 24, device=device, dtype=torch.int32)
    return [x.t().contiguous(), x[::3, 1::2].cpu(), large.clone()[::1000003].cpu(), x.to(torch.float16).t().cpu(),
            torch.empty(0, device=device).cpu()]


@program
def scalars_are_read():
    x, read = randn(1000, seed=9), []
    for i in range(100):
        x = x * 0.99 + i
        read.append(x[i].item())
    return read


@program
def threads_with_streams_of_their_own():
    results = [None] * 6

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = randn(128, 128, seed=i)
            for _ in range(50):
                x = torch.tanh(x @ x / 8)
            results[i] = x
            torch.cuda.current_stream().synchronize()
    running = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return results


@program
def threads_on_the_default_stream():
    model = mlp(128, seed=10)

    def work(i):
        squares(randn(32, 128, seed=i))(model).backward()
    for i in range(4):
        running = threading.Thread(target=work, args=(i,))
        running.start()
        running.join()
    return [each.grad for each in model.parameters()]


@program
def workers_of_a_loader():
    data = torch.utils.data.TensorDataset(torch.randn(256, 16, generator=seeded(11)))
    total = torch.zeros(16, device=device)
    for (x,) in torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, pin_memory=device == "cuda"):
        total += x.to(device, non_blocking=True).sum(0)
    return total


def in_child(queue, seed):
    queue.put(randn(64, 64, seed=seed).square().sum().item())


@program(alone=True)
def processes_are_spawned():
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=in_child, args=(queue, seed)) for seed in (1, 2)]
    for each in children:
        each.start()
    found = sorted(queue.get(timeout=300) for _ in children)
    for each in children:
        each.join()
    return found, [each.exitcode for each in children]


@program(alone=True)
def a_process_is_forked_before_the_device_is_used():
    context = torch.multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue, 3))
    child.start()
    found = queue.get(timeout=300)
    child.join()
    return found, child.exitcode, randn(10, seed=4) + 1


@program
def out_of_memory_and_on():
    try:
        torch.empty(1 << 42, device=device, dtype=torch.uint8)
        return "no error"
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    return torch.ones(1000, device=device).cumsum(0)


@program
def memory_comes_and_goes():
    total = torch.zeros(1, device=device)
    for i in range(20):
        total += torch.full((1 << 20,), float(i), device=device).sum()
        torch.cuda.empty_cache()
    return total


@program(alone=True)
def an_assertion_inside_of_a_kernel():
    try:
        torch.ones(4, device=device)[torch.tensor([9], device=device)].sum().item()
    except Exception as error:  # which one is PyTorch's affair
        return type(error).__name__
    return "no error"


@program
def the_profiler_sees_kernels():
    from torch.profiler import ProfilerActivity, profile
    x = randn(256, 256, seed=12)
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for _ in range(5):
            y = x @ x
        torch.cuda.synchronize()
    return bool(seen.events()), y


@program
def ranges_of_nvtx():
    with torch.cuda.nvtx.range("outer"):
        return randn(100, seed=13) * 2
