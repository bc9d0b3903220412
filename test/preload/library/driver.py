"""Calls of the CUDA driver from Python."""
import array
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        sys.exit(f"{name}: error {status}")


def made(name, *arguments, kind=ctypes.c_void_p):
    result = kind()
    call(name, ctypes.byref(result), *arguments)
    return result


def start():
    call("cuInit", 0)
    device = made("cuDeviceGet", 0, kind=ctypes.c_int)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", device))


def range_of(values):
    data = array.array("f", values)
    address = made("cuMemAlloc_v2", ctypes.c_size_t(4 * len(data)), kind=ctypes.c_uint64)
    call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.buffer_info()[0]), ctypes.c_size_t(4 * len(data)))
    return address


def values_of(address, count):
    """The contents of the device's memory range, as floats."""
    values = array.array("f", bytes(4 * count))
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(values.buffer_info()[0]), address, ctypes.c_size_t(4 * count))
    return values


def pointers_to(*arguments):
    return (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
