"""Checks that each function of the driver with a stream parameter has a wrapper, or needs none.

    driver_rows.py CUDA_H DRIVER_API_DEF

A function that a new toolkit adds is in neither list; a developer has to add it to one.
"""

import re
import sys

# These functions put no work on a stream, or make a stream.
NEED_NONE = {
    "cuGreenCtxStreamCreate", "cuStreamCopyAttributes", "cuStreamCreate", "cuStreamCreateWithPriority",
    "cuStreamGetAttribute", "cuStreamGetCaptureInfo", "cuStreamGetCtx", "cuStreamGetDevResource",
    "cuStreamGetDevice", "cuStreamGetFlags", "cuStreamGetGreenCtx", "cuStreamGetId", "cuStreamGetPriority",
    "cuStreamIsCapturing", "cuStreamSetAttribute", "cuStreamUpdateCaptureDependencies",
    "cuThreadExchangeStreamCaptureMode",
}
# driver_hook.cpp has these wrappers, written by hand.
BY_HAND = {"cuLaunchKernel", "cuLaunchKernelEx"}


def main(header, rows):
    text = re.sub(r"/\*.*?\*/", "", open(header, errors="replace").read(), flags=re.S)
    wrapped = set(re.findall(r"TALLY_DRIVER_CALL\((\w+),", open(rows).read())) | BY_HAND
    missing, seen = set(), 0
    for name, parameters in re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^;]*)\)\s*;", text):
        name = re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)
        if "CUstream" not in parameters:
            continue
        seen += 1
        if name not in wrapped and name not in NEED_NONE:
            missing.add(name)
    if seen < 50:
        sys.exit(f"{header}: {seen} functions that take a stream; it is not read as it is written")
    if missing:
        sys.exit(f"{header}: no wrapper in {rows}: {', '.join(sorted(missing))}")
    print(f"{seen} functions that take a stream, all known")


main(*sys.argv[1:])
