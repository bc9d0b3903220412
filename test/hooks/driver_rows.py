"""Whether each function of the driver that takes a stream has a wrapper, or needs none.

    driver_rows.py CUDA_H DRIVER_API_DEF

A function that a new toolkit adds is in neither list: it has to be put into one.
"""

import re
import sys

# They put no work on a stream, or make a stream.
NEED_NONE = {
    "cuGreenCtxStreamCreate", "cuStreamCopyAttributes", "cuStreamCreate", "cuStreamCreateWithPriority",
    "cuStreamGetAttribute", "cuStreamGetCaptureInfo", "cuStreamGetCtx", "cuStreamGetDevResource",
    "cuStreamGetDevice", "cuStreamGetFlags", "cuStreamGetGreenCtx", "cuStreamGetId", "cuStreamGetPriority",
    "cuStreamIsCapturing", "cuStreamSetAttribute", "cuStreamUpdateCaptureDependencies",
    "cuThreadExchangeStreamCaptureMode",
}
# By hand, in driver_hook.cpp.
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
