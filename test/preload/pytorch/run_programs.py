"""run_programs.py [NAME...]: runs programs one behind the other and writes a line for each: its name, its digest or
its error, and its time. --list: prints their names, and marks those that need a process of their own."""
import sys
import time

import torch

import compiled
import operations
import order
import training
from program import digest, programs

modules = (training, operations, order, compiled)  # each has entered its programs


def run(function):
    begin = time.monotonic()
    try:
        said = digest(function())
    except Exception as error:  # a program that cannot run gives one line, and the others go on
        said = f"FAILED {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    print(f"{function.__name__}\t{said}\t{time.monotonic() - begin:.2f} s", flush=True)


def main(words):
    torch.backends.cudnn.benchmark = False
    if words == ["--list"]:
        for name, function in programs.items():
            print(name, "alone" if function.alone else "")
        return
    for name in words or programs:
        run(programs[name])


if __name__ == "__main__":
    main(sys.argv[1:])
