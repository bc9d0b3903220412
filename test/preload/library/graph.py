"""Launches a graph again and again while the library makes variants of its kernels: graph.py KERNELS STORE
[changed].

The program instantiates the graph before the variants exist; with `changed` it also sets the nodes' parameters anew
before that. It launches the graph until the store has had a bundle for a while. Each launch computes the same, so
the printed sum differs if a part of a launch is lost or doubled."""
import ctypes
import os
import pathlib
import sys
import time

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from driver import call, made, pointers_to, range_of, start, values_of

n, threads, nodes_of_kernels = 4096, 128, 4


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""
    _fields_ = [("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p),
                ("context", ctypes.c_void_p)]


def kernel_nodes(graph):
    count = ctypes.c_size_t()
    call("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    call("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    kinds = [ctypes.c_int() for _ in nodes]
    for node, kind in zip(nodes, kinds):
        call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
    return [ctypes.c_void_p(node) for node, kind in zip(nodes, kinds) if kind.value == 0]


def main(kernels, store, changed):
    start()
    module = made("cuModuleLoadData", open(kernels, "rb").read())
    axpy = made("cuModuleGetFunction", module, b"axpy")
    x, y = range_of(i % 7 for i in range(n)), range_of([1] * n)
    stream, graph = made("cuStreamCreate", 1), ctypes.c_void_p()
    arguments = y, x, ctypes.c_float(1 / nodes_of_kernels), ctypes.c_uint(n)
    call("cuStreamBeginCapture_v2", stream, 2)
    call("cuMemsetD32Async", y, 0, ctypes.c_size_t(n), stream)
    for _ in range(nodes_of_kernels):
        call("cuLaunchKernel", axpy, n // threads, 1, 1, threads, 1, 1, 0, stream, pointers_to(*arguments), None)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    executable = made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
    factor = 1
    if changed:
        factor = 2
        arguments = y, x, ctypes.c_float(factor / nodes_of_kernels), ctypes.c_uint(n)
        pointers = pointers_to(*arguments)
        given = KernelNode(axpy, (n // threads, 1, 1), (threads, 1, 1), 0, ctypes.addressof(pointers), None, None, None)
        for node in kernel_nodes(graph):
            call("cuGraphExecKernelNodeSetParams_v2", executable, node, ctypes.byref(given))
    wrong, deadline, since = 0, time.monotonic() + 60, None
    while time.monotonic() < deadline and (since is None or time.monotonic() < since + 3):
        call("cuGraphLaunch", executable, stream)
        call("cuStreamSynchronize", stream)
        wrong += any(value != factor * (i % 7) for i, value in enumerate(values_of(y, n)))
        if since is None and any(pathlib.Path(store).glob("*.tally")):
            since = time.monotonic()
    print(f"{wrong} of the launches wrong, bundle seen: {since is not None}")


main(sys.argv[1], sys.argv[2], sys.argv[3:] == ["changed"])
