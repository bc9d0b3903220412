"""The commands of benchmarks/run to a process, without PyTorch: a server in an open loop, and a training in a thread
of its own. Each line of the input is a command; each line of the output is an answer in JSON. Instants are
nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. The commands are those of
benchmarks/workloads/main.cu:

  facts                        about the machine
  inference NAME SIZE FORM     loads a model, in place of the one before; SIZE: real or small; FORM: launches or graph
  training NAME SIZE           likewise; NAME: MODEL-eager or MODEL-compiled
  capacity REQUESTS SECONDS    requests one behind the other, at least so many and for at least so long
  serve LIMIT FLUSH ARRIVALS   an open loop; microseconds from now; no request begins after LIMIT; FLUSH 1: the L2 is
                               overwritten behind each
  train                        starts from the beginning; answers when a step is done
  stop BEGIN END               ends the training; steps a second between the two instants
  kernels STEPS FILE           writes the kernels of a training's steps to FILE, while it does not train
  unload                       frees both models
"""
import bisect
import gc
import hashlib
import json
import os
import struct
import sys
import threading
import time
import traceback


class Server:
    """Serves a `request`: enqueue(), then finish(), which returns the answer's bytes; `cycle`: the number of
    requests after which the answers repeat. `flush()`, if any, overwrites the L2."""

    def __init__(self, request, flush=None):
        self.request, self.flush, self.count, self.wrong = request, flush, 0, 0
        self.first = []
        for _ in range(request.cycle):
            request.enqueue()
            self.first.append(request.finish())

    def digest(self):
        return hashlib.sha256(b"".join(self.first)).hexdigest()[:16]

    def compare(self, answer):
        self.wrong += answer != self.first[self.count % len(self.first)]
        self.count += 1

    def capacity(self, least, seconds):
        times, begin = [], time.monotonic()
        while len(times) < least or time.monotonic() - begin < seconds:
            started = time.monotonic_ns()
            self.request.enqueue()
            answer = self.request.finish()
            times.append((time.monotonic_ns() - started) / 1e3)
            self.compare(answer)
        return {"service_us": rounded(times)}

    def serve(self, limit, flush, arrivals):
        """As in benchmarks/colocation/open_loop.h: a latency counts from the intended arrival to the end."""
        clock, request = time.monotonic_ns, self.request
        gc.collect()
        gc.disable()
        zero = clock()
        arrive = [zero + int(each * 1e3) for each in arrivals]
        begin = end = arrive[0] if arrive else zero
        latency, active = [], 0
        for i, arrival in enumerate(arrive):
            started = clock()
            while started < arrival:
                started = clock()
            if started - zero > limit * 1e3:
                break
            request.enqueue()
            answer = request.finish()
            end = clock()
            latency.append((end - arrival) / 1e3)
            active += end - started
            self.compare(answer)
            if flush and not (i + 1 < len(arrive) and arrive[i + 1] <= end):
                self.flush()
        gc.enable()
        return {"begin": begin, "end": end, "active": active / (end - begin) if latency else 0, "wrong": self.wrong, "latency_us": rounded(latency)}


class Trainer:
    """Trains: reset() goes back to the beginning; step() enqueues a step and returns a function that waits for its
    figure, a float. The trainer calls that function after it has enqueued the next step, so that the device has work
    meanwhile and the host is at most a step ahead."""

    def __init__(self, training):
        self.training, self.ends, self.figures = training, [], []
        self.thread = None

    def start(self):
        self.stopping, self.one = False, threading.Event()
        self.ends, self.figures = [], []
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        self.one.wait()

    def work(self):
        try:
            self.training.reset()
            before = self.training.step()
            while not self.stopping:
                pending = self.training.step()
                self.record(before)
                before = pending
            self.record(before)
        except BaseException:  # the process is of no further use; the reader of its answers sees its end
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def record(self, wait):
        self.figures.append(wait())
        self.ends.append(time.monotonic_ns())
        self.one.set()

    def stop(self, begin, end):
        self.stopping = True
        self.thread.join()
        self.thread = None
        rate = (self.progress(end) - self.progress(begin)) / ((end - begin) / 1e9) if end > begin else 0
        return {"steps": len(self.ends), "steps_per_s": rate, "figures": [bits(each) for each in self.figures]}

    def progress(self, at):
        """Steps done at an instant; between the ends of two steps, in proportion to the time."""
        done = bisect.bisect_right(self.ends, at)
        if done in (0, len(self.ends)):
            return done
        return done + (at - self.ends[done - 1]) / (self.ends[done] - self.ends[done - 1])


def bits(value):
    """The bits of a float in single precision, for exact comparison of different runs' figures."""
    return struct.unpack("<I", struct.pack("<f", value))[0]


def rounded(values):
    return [round(each, 2) for each in values]


class Program:
    """`models`: facts(), inference(name, size, form) -> a request or None, training(name, size) -> a training or
    None, drop(), flush(), hooks(on), kernels(training, steps, file); the field `said` of an inference or a training goes into
    the answer."""

    def __init__(self, models):
        self.models, self.server, self.trainer = models, None, None

    def answer(self, command, words):
        """The answer; None if the command is unknown."""
        if command == "facts":
            return self.models.facts()
        if command == "inference":
            self.server = None
            self.models.drop()
            request = self.models.inference(*words)
            if not request:
                return {"error": "no such model"}
            self.server = Server(request, self.models.flush)
            return {"digest": self.server.digest(), **request.said}
        if command == "training":
            self.trainer = None
            self.models.drop()
            training = self.models.training(*words)
            if not training:
                return {"error": "no such model"}
            self.trainer = Trainer(training)
            return training.said
        if command == "unload":
            self.server = self.trainer = None
            self.models.drop()
            return {}
        if command == "capacity" and self.server:
            return self.server.capacity(int(words[0]), float(words[1]))
        if command == "serve" and self.server:
            return self.server.serve(float(words[0]), words[1] == "1", [float(each) for each in words[2:]])
        if command == "train" and self.trainer:
            self.trainer.start()
            return {"now": time.monotonic_ns()}
        if command == "stop" and self.trainer:
            return self.trainer.stop(int(words[0]), int(words[1]))
        if command == "hooks":
            self.models.hooks(words[0] == "on")
            return {}
        if command == "kernels" and self.trainer:
            return self.models.kernels(self.trainer.training, int(words[0]), words[1])
        return None


def run(models):
    """Answers commands until the input ends. The output of all other code on standard output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    program = Program(models)
    for line in iter(sys.stdin.readline, ""):
        command, *words = line.split()
        answer = program.answer(command, words)
        if answer is None:
            print(f"'{line.strip()}' is no command here", file=sys.stderr)
            return 2
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0
