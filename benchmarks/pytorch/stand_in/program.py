#!/usr/bin/env python3
"""A stand-in for program.py without PyTorch, for ../pytorch_test.py: requests and steps only sleep. Its settings:

  STAND_IN_WRONG=NAME     under tally that model answers wrongly, or that training has other figures
  STAND_IN_CRASH=NAME     under tally the process ends when it loads that model
  STAND_IN_BROKEN=NAME    the process ends when it loads that model, under any system
  STAND_IN_DRIFTS=NAME    that training's figures are never twice the same; they differ by a thousandth
"""
import itertools
import json
import os
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import protocol


def asked(what, name):
    return os.environ.get(f"STAND_IN_{what}") == name and (what in ("DRIFTS", "BROKEN") or "TALLY_ARENA" in os.environ)


class Request:
    cycle, said = 3, {"parameters": 1}

    def __init__(self, name):
        self.name, self.count = name, 0

    def enqueue(self):
        self.count += 1

    def finish(self):
        time.sleep(0.001)
        wrong = self.count > 5 and asked("WRONG", self.name)
        return bytes([self.count % self.cycle, wrong])


class Training:
    said = {"compiled_anew": 0}

    def __init__(self, name):
        self.name, self.runs = name, itertools.count()
        self.reset()

    def reset(self):
        self.count, self.run = 0, next(self.runs)

    def step(self):
        self.count += 1
        figure = self.count + asked("WRONG", self.name) + self.run / 1000 * self.count * asked("DRIFTS", self.name)

        def wait():
            time.sleep(0.003)
            return figure
        return wait


class Models:
    @staticmethod
    def facts():
        return {"gpu": "none", "sms": 0, "cuda_driver": 0, "cuda_runtime": 0}

    def inference(self, name, size, form):
        return self.made(Request(name), name) if form in ("launches", "graph") and size == "small" else None

    def training(self, name, size):
        return self.made(Training(name), name) if size == "small" else None

    @staticmethod
    def made(model, name):
        if asked("CRASH", name) or asked("BROKEN", name):
            sys.exit("crashed as asked")
        return model

    def drop(self):
        pass

    def flush(self):
        time.sleep(0.001)

    def hooks(self, on):
        print("hooks", "on" if on else "off", file=sys.stderr)

    @staticmethod
    def kernels(_, steps, path):
        """Lists a kernel of 900 us in each millisecond."""
        found = [["long_kernel", 1000 * i, 900] for i in range(steps)]
        with open(path, "w") as file:
            json.dump({"steps": steps, "kernels": found}, file)
        return {"kernels": len(found)}


if __name__ == "__main__":
    print("stand-in", os.environ.get("TALLY_CLASS", ""), file=sys.stderr)
    sys.exit(protocol.run(Models()))
