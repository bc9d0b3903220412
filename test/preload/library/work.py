"""A program that calls the CUDA driver directly: work.py KERNELS COUNTING ROUNDS (image_of describes KERNELS). Two
streams take turns on one range, each behind the other's event. The printed sum differs if a launch is lost, doubled
or out of order."""
import ctypes
import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from driver import call, cuda, made, pointers_to, range_of, start, values_of

# The most dynamic shared memory of a launch without an attribute of the kernel. A variant uses some more, so the
# library has to set the attribute.
shared = 48 << 10


def launch(function, blocks, threads, stream, *arguments):
    call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, shared, stream, pointers_to(*arguments), None)


def wait_for(event, by_asking):
    not_ready = 600
    while by_asking and cuda.cuEventQuery(event) == not_ready:
        pass
    call("cuEventSynchronize", event)


def linked_by_driver(path, by_file):
    link = ctypes.c_void_p()
    call("cuLinkCreate_v2", 0, None, None, ctypes.byref(link))
    if by_file:
        call("cuLinkAddFile_v2", link, 1, path.encode(), 0, None, None)
    else:
        text = open(path, "rb").read() + b"\0"
        call("cuLinkAddData_v2", link, 1, text, ctypes.c_size_t(len(text)), b"kernels", 0, None, None)
    code, size = ctypes.c_void_p(), ctypes.c_size_t()
    call("cuLinkComplete", link, ctypes.byref(code), ctypes.byref(size))
    image = ctypes.string_at(code, size.value)
    call("cuLinkDestroy", link)
    return image


def linked_by_nvjitlink(path, library):
    jit, link = ctypes.CDLL(library), ctypes.c_void_p()
    getattr(jit, "__nvJitLinkCreate_13_0")(ctypes.byref(link), 1, (ctypes.c_char_p * 1)(b"-arch=sm_80"))
    text = open(path, "rb").read()
    size = ctypes.c_size_t()
    for name, arguments in (("AddData_13_0", (2, text, ctypes.c_size_t(len(text)), b"kernels")), ("Complete_13_0", ()),
                            ("GetLinkedCubinSize_13_0", (ctypes.byref(size),))):
        if getattr(jit, "__nvJitLink" + name)(link, *arguments) != 0:
            sys.exit(f"nvJitLink{name} failed")
    image = ctypes.create_string_buffer(size.value)
    getattr(jit, "__nvJitLinkGetLinkedCubin_13_0")(link, image)
    getattr(jit, "__nvJitLinkDestroy_13_0")(ctypes.byref(link))
    return image.raw


def image_of(kernels):
    """A file, or `link-data:FILE`, `link-file:FILE`, `nvjitlink-LIBRARY:FILE`: the result of linking a file's PTX."""
    how, _, path = kernels.rpartition(":")
    if how.startswith("nvjitlink-"):
        return linked_by_nvjitlink(path, how.partition("-")[2])
    return linked_by_driver(path, how == "link-file") if how else open(path, "rb").read()


def main(kernels, counting, rounds):
    start()
    module = made("cuModuleLoadData", image_of(kernels))
    other = made("cuModuleLoadData", open(counting, "rb").read())
    axpy = made("cuModuleGetFunction", module, b"axpy")
    count = made("cuModuleGetFunction", other, b"count")
    n = 4096
    x, y = range_of(i % 7 for i in range(n)), range_of(i % 5 for i in range(n))
    out = range_of([0])
    streams = [made("cuStreamCreate", flags) for flags in (1, 0)]
    event = made("cuEventCreate", 2)
    factor, size = ctypes.c_float(0.25), ctypes.c_uint(n)
    # The host sees an event through a word of its own memory, to which each fourth round adds 1.
    host = made("cuMemHostAlloc", ctypes.c_size_t(4), 0)
    seen = ctypes.c_float.from_address(host.value)
    seen.value = 0
    word = made("cuMemHostGetDevicePointer_v2", host, 0, kind=ctypes.c_uint64)
    one, early = range_of([1]), 0
    for i in range(rounds):
        # y = y + x / 4, and after each eighth round y = 1: a swap of any two operations changes the sum.
        stream = streams[i % 2]
        launch(axpy, n // 128, 128, stream, y, x, factor, size)
        if i % 8 == 7:
            call("cuMemsetD32Async", y, 0x3F800000, ctypes.c_size_t(n), stream)
            launch(count, 1, 1, stream, out)
        if i % 4 == 3:
            launch(axpy, 1, 32, stream, word, one, ctypes.c_float(1), ctypes.c_uint(1))
        call("cuEventRecord", event, stream)
        if i % 16 == 15:
            wait_for(event, by_asking=i % 32 == 31)
            early += seen.value != (i + 1) // 4
        call("cuStreamWaitEvent", streams[1 - i % 2], event, 0)
    for stream in streams:
        call("cuStreamSynchronize", stream)
    counted = ctypes.c_uint()
    call("cuMemcpyDtoH_v2", ctypes.byref(counted), out, ctypes.c_size_t(4))
    print(f"sum {sum(values_of(y, n)):.3f}, counted {counted.value + 1}, {early} events too early")


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
