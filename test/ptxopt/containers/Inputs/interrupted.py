"""Runs a command that rewrites FILE in place: with a limit on the size of files that makes its write fail, with the
same limit and a signal that kills at the limit, and without a limit. interrupted.py FILE COMMAND..."""
import os
import pathlib
import resource
import signal
import subprocess
import sys

path, command = pathlib.Path(sys.argv[1]), sys.argv[2:]
before = path.read_bytes()


def limit(action):
    def apply():
        signal.signal(signal.SIGXFSZ, action)
        size = len(before) + 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return apply


def is_whole():
    return path.read_bytes() == before


failed = subprocess.run(command, preexec_fn=limit(signal.SIG_IGN), capture_output=True, text=True)
assert is_whole() and os.listdir(path.parent) == [path.name], "a failed write left something"
print(f"failed: {failed.returncode}, {failed.stderr.strip().split(': ')[-1]}")
killed = subprocess.run(command, preexec_fn=limit(signal.SIG_DFL), capture_output=True)
assert is_whole(), "a killed write damaged the file"
print(f"killed: {'signal' if killed.returncode < 0 else killed.returncode}")
done = subprocess.run(command)
assert not is_whole(), "nothing was written"
print(f"done: {done.returncode}")
