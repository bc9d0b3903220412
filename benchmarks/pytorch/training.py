"""A PyTorch training, eager or compiled. It always starts from the same state; the figure of a step is its loss."""
import json
import os
import sys
import tempfile

import torch
import torch._inductor.config

FORMS = ["eager", "compiled"]


class Training:
    def __init__(self, task, form, device):
        self.task, self.count, self.on_gpu = task, 0, device == "cuda"
        compiled = form == "compiled"
        torch.utils.deterministic.fill_uninitialized_memory = False
        self.optimizer = task.optimizer(compiled)
        self.loss = torch.compile(task.loss, fullgraph=True) if compiled else task.loss
        self.update = torch.compile(self.optimizer.step) if compiled else self.optimizer.step
        self.figures = torch.zeros(2, pin_memory=self.on_gpu)
        self.events = [torch.cuda.Event() for _ in range(2)] if self.on_gpu else None
        self.initial = [each.detach().clone() for each in self.held()]
        before = missed()
        self.first_steps()
        self.said = {"compiled_anew": missed() - before}

    def first_steps(self):
        """The first steps compile the model and make the optimizer's state. They use PyTorch's deterministic
        algorithms if the task says so; the gradient of attention is deterministic only if all operations have to be.
        An operator without a deterministic algorithm warns once. Servers do not use these algorithms, which would
        sort copies into a cache first."""
        for rest in ("refused", "warned of"):
            torch.use_deterministic_algorithms(self.task.repeats, warn_only=rest == "warned of")
            # Otherwise Inductor measures nothing and takes the first of its choices, 3 times slower. All processes read
            # its measurements from a cache.
            torch._inductor.config.deterministic = False
            try:
                for _ in range(3):
                    self.step()()
                return
            except RuntimeError as trouble:
                if rest == "warned of" or "deterministic" not in str(trouble):
                    raise
                print(f"{type(self.task.model).__name__}: {trouble}", file=sys.stderr)
                torch.compiler.reset()

    def held(self):
        return [*self.task.model.parameters(), *self.task.model.buffers()]

    @torch.no_grad()
    def reset(self):
        self.count = 0
        for now, first in zip(self.held(), self.initial):
            now.copy_(first)
        for state in self.optimizer.state.values():
            for each in state.values():
                if isinstance(each, torch.Tensor):
                    each.zero_()

    def step(self):
        """Enqueues a step. The returned function waits for the loss. At most two steps are in flight."""
        self.optimizer.zero_grad()
        loss = self.loss(*self.task.batches[self.count % len(self.task.batches)])
        loss.backward()
        self.update()
        slot = self.count % 2
        self.figures[slot].copy_(loss.detach(), non_blocking=True)
        if self.on_gpu:
            self.events[slot].record()
        self.count += 1

        def wait():
            if self.on_gpu:
                self.events[slot].synchronize()
            return float(self.figures[slot])
        return wait


def missed():
    """The number of graphs missing in Inductor's cache."""
    from torch._dynamo.utils import counters
    return counters["inductor"]["fxgraph_cache_miss"]


def kernels(training, steps, path):
    """Writes the kernels of so many steps in the order of their begins: [name, begin, microseconds]. The GPU should
    have no other work."""
    training.reset()
    for _ in range(2):
        training.step()()
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CUDA if training.on_gpu else activity.CPU]) as seen:
        for wait in [training.step() for _ in range(steps)]:
            wait()
        if training.on_gpu:
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        seen.export_chrome_trace(trace)
        with open(trace) as file:
            events = json.load(file)["traceEvents"]
    found = sorted([each["ts"], each["dur"], each["name"]] for each in events if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    with open(path, "w") as file:
        json.dump({"steps": steps, "kernels": [[name, round(begin - found[0][0], 3), took] for begin, took, name in found]}, file)
    return {"kernels": len(found), "busy_us": round(sum(took for _, took, _ in found), 1)}
