"""Runs a command whose standard error is a terminal, and prints the command's output there."""
import os
import subprocess
import sys

ours, its = os.openpty()
process = subprocess.Popen(sys.argv[1:], stderr=its)
os.close(its)
written = b""
while True:
    try:
        part = os.read(ours, 4096)
    except OSError:  # all writers have gone
        break
    if not part:
        break
    written += part
print(written)
sys.exit(process.wait())
