#!/usr/bin/env python3
"""One of the processes that share a GPU: serves a PyTorch model or trains one. It does not use Tally: benchmarks/run
starts it plainly, under MPS, or by `tally run`, and sends it commands (protocol.py).

  program.py [--device=cuda|cpu]
"""
import argparse
import gc
import os
import sys

# PyTorch and its libraries read these variables at their start. Values that the caller has set stay.
SETTINGS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the library then always adds products of one shape in one order
            "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM": "1", "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS": "TRITON",
            "TORCHINDUCTOR_MAX_AUTOTUNE_CONV_BACKENDS": "ATEN"}


class Models:
    def __init__(self, device):
        self.device, self.flush, self.switch = device, inference.Flush(device), None

    def facts(self):
        about = {"gpu": "none", "sms": 0, "cuda_driver": 0, "cuda_runtime": 0, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
        if self.device == "cuda":
            seen = torch.cuda.get_device_properties(0)
            about.update(gpu=seen.name, sms=seen.multi_processor_count, cuda_driver=driver_version(), cuda_runtime=torch.version.cuda)
        return about

    def inference(self, name, size, form):
        make = models.INFERENCE.get(name)
        if make:
            dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
            return inference.Request(make(size, self.device, dtype), form, self.device)

    def training(self, name, size):
        model, _, form = name.rpartition("-")
        make = models.TRAINING.get(model)
        if make and form in training.FORMS:
            return training.Training(make(size, self.device), form, self.device)

    def drop(self):
        """Frees memory after a model is dropped."""
        torch.compiler.reset()
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def hooks(self, on):
        """Turns Tally's hooks on or off, when all work is over."""
        torch.cuda.synchronize()
        self.switch = self.switch or hooks_switch.Switch()
        self.switch.turn(on)

    @staticmethod
    def kernels(trained, steps, path):
        return training.kernels(trained, steps, path)


def driver_version():
    import ctypes
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    device = parser.parse_args().device
    if device == "cpu":
        torch.set_num_threads(1)
    elif not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return 3
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = False
    return protocol.run(Models(device))


if __name__ == "__main__":
    if "--device=cpu" not in sys.argv:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
    try:
        import torch
    except ImportError as missing:
        print(missing, file=sys.stderr)
        sys.exit(3)
    import hooks_switch
    import inference
    import models
    import protocol
    import training
    sys.exit(main())
