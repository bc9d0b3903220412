"""Writes a file of what the runtime has found: profile.py OUT 'HASH KIND HIGH BLOCK SHAPE KERNEL'..."""

import sys


def hash_of(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


out, *entries = sys.argv[1:]
text = "".join(line + "\n" for line in ["tally-profile 3", "a GPU, driver 13000", *entries]).encode()
with open(out, "wb") as file:
    file.write(text + b"end %x\n" % hash_of(text))
