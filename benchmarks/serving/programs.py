"""The two programs that share a GPU, as processes: llama-server, and the training beside it."""
import bisect
import json
import os
import pty
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from two_processes import Ended, Process

from client import HOST


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def tail(text, lines=8):
    return "\n".join(text.strip().splitlines()[-lines:])


def stop(process, patience):
    """Interrupts the process as Ctrl-C does, and kills it if it does not end. Returns its status."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        return process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Child:
    """A process that writes its standard error to a file. `process`, `errors`."""

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Server(Child):
    """llama-server, from its start to its end. `command`: the program with its launcher, if any; `patience`: seconds
    until it has to answer."""

    def __init__(self, command, options, environment, patience):
        self.port, self.errors = free_port(), tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen([*command, *options, "--host", HOST, "--port", str(self.port)], stdin=subprocess.DEVNULL,
                                        stdout=self.errors, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.patience = patience

    def check(self):
        """Raises an error with the server's status if the server has ended."""
        if self.process.poll() is not None:
            raise Ended(f"the server ended with {self.process.returncode}: {tail(self.said())}")

    def get(self, path):
        with urllib.request.urlopen(f"http://{HOST}:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)

    def wait(self):
        """Waits until the server answers /health, which it does after it has loaded the weights."""
        until = time.monotonic() + self.patience
        while True:
            self.check()
            try:
                self.get("/health")
                return
            except (OSError, ValueError, urllib.error.URLError):
                pass
            if time.monotonic() > until:
                self.process.kill()
                raise Ended(f"the server does not answer /health after {self.patience:g} s: {tail(self.said())}")
            time.sleep(0.05)

    def vocabulary(self):
        return self.get("/v1/models")["data"][0]["meta"]["n_vocab"]

    def end(self):
        """Ends the server; returns its output. An earlier end of the server is an error."""
        self.check()
        status = stop(self.process, 30)
        if status not in (0, -signal.SIGINT):
            raise Ended(f"the server ended with {status} when it was to end: {tail(self.said())}")
        return self.said()


class PyTorch:
    """A training of benchmarks/pytorch."""

    def __init__(self, command, environment, name, size, patience=300.0):
        self.process, self.name = Process(command, environment, patience), name
        self.size, self.figures = size, None

    def wait(self):
        found = self.process.ask("training", self.name, self.size)
        if "error" in found:
            raise Ended(f"{self.name}: {found['error']}")

    def start(self):
        """Starts the training from its beginning; returns when a step is done."""
        self.process.ask("train")

    def rate(self, begin, end):
        """Ends the training; returns its steps a second between the two instants."""
        stopped = self.process.ask("stop", begin, end)
        self.figures = stopped["figures"]
        return stopped["steps_per_s"]

    def said(self):
        return self.process.said()

    def end(self):
        return self.process.end()

    def kill(self):
        self.process.process.kill()
        self.process.process.wait()


class Command(Child):
    """Any program that writes a line for each step. Its standard output is a terminal, so that the lines come at
    once."""
    figures = None

    def __init__(self, command, environment, pattern, patience=300.0):
        self.pattern, self.patience, self.ends = re.compile(pattern), patience, []
        self.errors, self.one = tempfile.TemporaryFile("w+", errors="replace"), threading.Event()
        ours, its = pty.openpty()
        self.process = subprocess.Popen(shlex.split(command) if isinstance(command, str) else command, stdin=subprocess.DEVNULL, stdout=its,
                                        stderr=self.errors, env={**os.environ, **environment})
        os.close(its)
        self.thread = threading.Thread(target=self.listen, args=(os.fdopen(ours, errors="replace"),), daemon=True)
        self.thread.start()

    def listen(self, lines):
        try:
            for line in lines:
                if self.pattern.search(line):
                    self.ends.append(time.monotonic_ns())
                    self.one.set()
        except OSError:  # the program has ended
            pass
        self.one.set()

    def wait(self):
        pass

    def check(self):
        if self.process.poll() is not None:
            raise Ended(f"the training ended with {self.process.returncode} behind {len(self.ends)} steps: {tail(self.said())}")

    def start(self):
        if not self.one.wait(self.patience):
            self.process.kill()
            raise Ended(f"the training wrote no step in {self.patience:g} s")
        self.check()

    def progress(self, at):
        """Steps done at an instant; between the ends of two steps, in proportion to the time."""
        done = bisect.bisect_right(self.ends, at)
        if done in (0, len(self.ends)):
            return done
        return done + (at - self.ends[done - 1]) / (self.ends[done] - self.ends[done - 1])

    def rate(self, begin, end):
        self.check()
        return (self.progress(end) - self.progress(begin)) / ((end - begin) / 1e9)

    def end(self):
        stop(self.process, 30)
        return self.said()
