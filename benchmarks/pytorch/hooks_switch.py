"""Turns Tally's hooks off and on in this process, to measure their cost: two processes of one program differ by more
than the hooks cost. While they are off, each call goes to the driver behind a few instructions, as under
TALLY_DISABLE=1. Only where all work of the process is over, and no other process waits for it to make way.
"""
import ctypes
import os
import subprocess

# The variable that isOff() (lib/hooks/intercept/wrappers.h) reads in each wrapper.
SYMBOL = "_ZZN5tally5hooks5isOffEvE3off"


def place():
    """The variable's address. The hooks have set it by their first call."""
    with open("/proc/self/maps") as maps:
        mapped = [line.split() for line in maps if "libtally_preload.so" in line]
    first = next((each for each in mapped if int(each[2], 16) == 0), None)
    if not first:
        raise RuntimeError("this process has no libtally_preload.so: start it by `tally run`")
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    names = subprocess.run(["nm", first[5]], capture_output=True, text=True, env=plain).stdout
    found = [line.split()[0] for line in names.splitlines() if line.endswith(f" {SYMBOL}")]
    if len(found) != 1:
        raise RuntimeError(f"{first[5]} lacks the symbol {SYMBOL}: use a library that is not stripped, or one of benchmarks/pack")
    return int(first[0].split("-")[0], 16) + int(found[0], 16)


class Switch:
    def __init__(self):
        self.off = ctypes.c_ubyte.from_address(place())

    def is_on(self):
        return self.off.value == 0

    def turn(self, on):
        self.off.value = 0 if on else 1
