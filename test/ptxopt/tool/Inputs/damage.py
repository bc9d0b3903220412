# Flips one bit in the middle of each entry of a cache.
import pathlib
import sys

for path in pathlib.Path(sys.argv[1]).glob("llvmcache-*"):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
