// The results of the driver's functions: before cuInit, without a context, for pointers of each
// kind, for names and versions, and for modules.
#include "found_driver.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const char *what, int line) {
  if (holds)
    return;
  std::printf("FAILED line %d: %s\n", line, what);
  ++failures;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)

void expectCode(CUresult code, CUresult wanted, const char *call, int line) {
  if (code == wanted)
    return;
  std::printf("FAILED line %d: %s gives %s, not %s\n", line, call, nameOf(code), nameOf(wanted));
  ++failures;
}
#define GIVES(wanted, call) expectCode(driver().call, wanted, #call, __LINE__)
#define WORKS(call) GIVES(CUDA_SUCCESS, call)

void beforeInit() {
  int number = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUmodule module = nullptr;
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&number));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRetain(&context, 0));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&memory, 64));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuModuleLoadData(&module, "x"));
  GIVES(CUDA_ERROR_NOT_INITIALIZED, cuStreamSynchronize(nullptr));
  GIVES(CUDA_ERROR_NOT_INITIALIZED,
        cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  WORKS(cuDriverGetVersion(&number));
  EXPECT(number >= 13000);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuInit(1));
  EXPECT(std::strcmp(nameOf(CUDA_ERROR_NOT_READY), "CUDA_ERROR_NOT_READY") == 0);
  EXPECT(std::strcmp(nameOf(static_cast<CUresult>(12345)), "an unknown error") == 0);
}

void versions() {
  void *found = nullptr, *other = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  auto find = [&](const char *name, int version, cuuint64_t flags = 0) {
    found = nullptr;
    WORKS(cuGetProcAddress(name, &found, version, flags, &status));
    return found;
  };
  EXPECT(find("cuCtxCreate", 11000) != nullptr);
  other = found;
  EXPECT(find("cuCtxCreate", 13000) != nullptr && found != other); // _v4, not _v2
  EXPECT(find("cuCtxCreate", 12000) != other);                     // _v3
  EXPECT(find("cuMemAlloc", 13000) == find("cuMemAlloc", 3020));
  EXPECT(find("cuGetProcAddress", 11040) != find("cuGetProcAddress", 12000));
  EXPECT(find("cuGetProcAddress", 13000) == reinterpret_cast<void *>(driver().cuGetProcAddress));
  constexpr cuuint64_t perThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT(find("cuLaunchKernel", 12000, perThread) ==
         reinterpret_cast<void *>(driver().thread_cuLaunchKernel));
  EXPECT(find("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM) ==
         reinterpret_cast<void *>(driver().cuLaunchKernel));
  EXPECT(find("cuMemAlloc", 12000, perThread) == find("cuMemAlloc", 12000)); // it has one form
  EXPECT(find("cuLaunchKernelEx", 11000) == nullptr);
  EXPECT(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT(find("cuNoSuchFunction", 13000) == nullptr);
  EXPECT(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT(find("cuMemAlloc_v2", 13000) == nullptr);
}

void withoutContext() {
  CUcontext context = nullptr;
  CUdevice device = 0;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  WORKS(cuCtxGetCurrent(&context));
  EXPECT(context == nullptr);
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 64));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&event, 0));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoadData(&module, imageOf(".ptx").c_str()));
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&context));
}

void contexts(CUcontext primary) {
  CUcontext now = nullptr, made = nullptr;
  unsigned flags = 0;
  int isActive = 0;
  WORKS(cuDevicePrimaryCtxGetState(0, &flags, &isActive));
  EXPECT(isActive == 1);
  GIVES(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxGetState(1, &flags, &isActive));
  WORKS(cuCtxCreate(&made, nullptr, CU_CTX_SCHED_AUTO, 0));
  WORKS(cuCtxGetCurrent(&now));
  EXPECT(made != primary && now == made);
  CUstream stream = nullptr;
  WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  WORKS(cuCtxPopCurrent(&now));
  EXPECT(now == made);
  WORKS(cuCtxGetCurrent(&now));
  EXPECT(now == primary);
  WORKS(cuStreamGetCtx(stream, &now));
  EXPECT(now == made);
  std::thread([&] {
    CUcontext others = primary;
    WORKS(cuCtxGetCurrent(&others));
    EXPECT(others == nullptr); // each thread has a stack of its own
    WORKS(cuCtxPushCurrent(made));
    WORKS(cuStreamSynchronize(stream));
    WORKS(cuStreamDestroy(stream));
    WORKS(cuCtxDestroy(made));
    WORKS(cuCtxGetCurrent(&others));
    EXPECT(others == nullptr);
  }).join();
  GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(made));
}

struct Attributes {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  CUdeviceptr device = 0, begin = 0;
  void *host = nullptr;
  unsigned isManaged = 0;
  CUcontext context = nullptr;
  std::size_t bytes = 0;
};

Attributes attributesOf(CUdeviceptr pointer) {
  Attributes all;
  CUpointer_attribute names[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,  CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
      CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_CONTEXT,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
  };
  void *results[] = {&all.type,    &all.device, &all.host, &all.isManaged,
                     &all.context, &all.begin,  &all.bytes};
  WORKS(cuPointerGetAttributes(7, names, results, pointer));
  return all;
}

void pointers(CUcontext context) {
  CUdeviceptr memory = 0, begin = 0, mapped = 0;
  std::size_t bytes = 0;
  GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
  GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, std::size_t{1} << 50));
  WORKS(cuMemAlloc(&memory, 1000));
  WORKS(cuMemGetAddressRange(&begin, &bytes, memory + 999));
  EXPECT(begin == memory && bytes == 1000);
  Attributes of = attributesOf(memory + 8);
  EXPECT(of.type == CU_MEMORYTYPE_DEVICE && of.device == memory + 8 && of.host == nullptr);
  EXPECT(of.context == context && of.begin == memory && of.bytes == 1000 && !of.isManaged);
  void *host = nullptr;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
  WORKS(cuMemAllocHost(&host, 512));
  of = attributesOf(reinterpret_cast<CUdeviceptr>(host));
  EXPECT(of.type == CU_MEMORYTYPE_HOST && of.host == host && of.bytes == 512);
  WORKS(cuMemFreeHost(host));
  CUdeviceptr managed = 0;
  WORKS(cuMemAllocManaged(&managed, 256, CU_MEM_ATTACH_GLOBAL));
  of = attributesOf(managed);
  EXPECT(of.isManaged == 1 && of.host == reinterpret_cast<void *>(managed));
  WORKS(cuMemFree(managed));
  std::vector<char> pageable(8192);
  auto plain = reinterpret_cast<CUdeviceptr>(pageable.data());
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  GIVES(CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain));
  of = attributesOf(plain);
  EXPECT(of.type == 0 && of.device == 0 && !of.host && !of.context && of.begin == 0);
  WORKS(cuMemHostRegister(pageable.data(), pageable.size(), 0));
  WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain));
  EXPECT(type == CU_MEMORYTYPE_HOST);
  WORKS(cuMemHostGetDevicePointer(&mapped, pageable.data(), 0));
  WORKS(cuMemHostUnregister(pageable.data()));
  GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pageable.data()));
  WORKS(cuMemFree(memory));
}

void modules() {
  CUmodule module = nullptr, again = nullptr;
  CUfunction function = nullptr;
  const char *name = nullptr;
  std::size_t offset = 0, bytes = 0;
  int threads = 0;
  GIVES(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, "this is no PTX"));
  std::string text = imageOf(".ptx");
  WORKS(cuModuleLoadData(&module, text.c_str()));
  GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "none"));
  WORKS(cuModuleGetFunction(&function, module, "mix"));
  WORKS(cuFuncGetName(&name, function));
  EXPECT(name && std::strcmp(name, "mix") == 0);
  WORKS(cuFuncGetModule(&again, function));
  EXPECT(again == module);
  WORKS(cuFuncGetParamInfo(function, 1, &offset, &bytes));
  EXPECT(offset == 8 && bytes == 4);
  GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 4, &offset, &bytes));
  WORKS(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  EXPECT(threads == 1024);
  CUdeviceptr memory = 0;
  WORKS(cuMemAlloc(&memory, 1024));
  unsigned count = 256, seed = 1, rounds = 1;
  void *arguments[] = {&memory, &count, &seed, &rounds};
  GIVES(CUDA_ERROR_INVALID_VALUE,
        cuLaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  GIVES(CUDA_ERROR_INVALID_VALUE,
        cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, arguments, nullptr));
  WORKS(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
  WORKS(cuModuleUnload(module));
  WORKS(cuMemFree(memory));
}

/// The rest runs with the emulated driver alone: CUDA does not define the use of destroyed handles.
void goneHandles() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  WORKS(cuModuleLoadData(&module, imageOf(".ptx").c_str()));
  WORKS(cuModuleGetFunction(&function, module, "mix"));
  WORKS(cuModuleUnload(module));
  GIVES(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&function, module, "mix"));
  GIVES(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
  void *arguments[4] = {};
  GIVES(CUDA_ERROR_INVALID_HANDLE,
        cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr));
}

/// The graph has a node for each captured operation.
void graphs() {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUdeviceptr memory = 0;
  WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  WORKS(cuMemAlloc(&memory, 1024));
  WORKS(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemsetD32Async(memory, 3, 256, stream));
  GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
  EXPECT(graph == nullptr);
  WORKS(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  WORKS(cuMemsetD32Async(memory, 3, 256, stream));
  WORKS(cuMemcpyDtoDAsync(memory, memory + 512, 512, stream));
  WORKS(cuLaunchHostFunc(stream, [](void *) {}, &memory));
  WORKS(cuStreamEndCapture(stream, &graph));
  std::size_t count = 0, before = 0;
  WORKS(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT(count == 3);
  std::vector<CUgraphNode> nodes(count);
  WORKS(cuGraphGetNodes(graph, nodes.data(), &count));
  for (CUgraphNode each : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    WORKS(cuGraphNodeGetType(each, &type));
    WORKS(cuGraphNodeGetDependencies(each, nullptr, nullptr, &before));
    EXPECT(before == (type == CU_GRAPH_NODE_TYPE_MEMSET ? 0u : 1u));
    CUDA_MEMSET_NODE_PARAMS fill{};
    CUDA_MEMCPY3D copy{};
    CUDA_HOST_NODE_PARAMS host{};
    if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
      WORKS(cuGraphMemsetNodeGetParams(each, &fill));
      EXPECT(fill.dst == memory && fill.value == 3 && fill.elementSize == 4 && fill.width == 256);
    } else if (type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      WORKS(cuGraphMemcpyNodeGetParams(each, &copy));
      EXPECT(copy.dstDevice == memory && copy.WidthInBytes == 512 && copy.Height == 1);
      EXPECT(copy.srcMemoryType == CU_MEMORYTYPE_DEVICE);
    } else {
      WORKS(cuGraphHostNodeGetParams(each, &host));
      EXPECT(host.userData == &memory);
    }
  }
  WORKS(cuGraphDestroy(graph));
  WORKS(cuMemFree(memory));
  WORKS(cuStreamDestroy(stream));
}

/// A stream waits for words, of 32 and 64 bits.
void words() {
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  std::uint32_t values[4] = {};
  WORKS(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  WORKS(cuMemAlloc(&memory, sizeof values));
  WORKS(cuMemsetD32(memory, 0, 4));
  WORKS(cuCtxSynchronize());
  WORKS(cuStreamWaitValue32(stream, memory, 5, CU_STREAM_WAIT_VALUE_GEQ));
  WORKS(cuStreamWriteValue32(stream, memory + 4, 9, 0));
  WORKS(cuStreamWriteValue64(stream, memory + 8, 0x0000000100000002u, 0));
  GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  CUstream other = nullptr;
  WORKS(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  WORKS(cuStreamWriteValue32(other, memory, 6, 0));
  WORKS(cuStreamSynchronize(stream));
  WORKS(cuMemcpyDtoH(values, memory, sizeof values));
  EXPECT(values[0] == 6 && values[1] == 9 && values[2] == 2 && values[3] == 1);
  WORKS(cuMemFree(memory));
  WORKS(cuStreamDestroy(stream));
  WORKS(cuStreamDestroy(other));
}

/// The forms for the thread's own default stream: the streams of two threads do not wait for each
/// other.
void threadsStreams(CUcontext context) {
  std::atomic<bool> isOpen{false};
  auto wait = [](void *data) {
    while (!*static_cast<std::atomic<bool> *>(data))
      std::this_thread::yield();
  };
  WORKS(thread_cuLaunchHostFunc(nullptr, wait, &isOpen));
  GIVES(CUDA_ERROR_NOT_READY, thread_cuStreamQuery(nullptr));
  GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
  std::thread([&] {
    WORKS(cuCtxSetCurrent(context));
    WORKS(thread_cuStreamQuery(nullptr));
  }).join();
  isOpen = true;
  WORKS(thread_cuStreamSynchronize(nullptr));
}

} // namespace

/// With an argument the test also makes calls that CUDA leaves undefined.
int main(int count, char **) {
  beforeInit();
  versions();
  WORKS(cuInit(0));
  withoutContext();
  CUcontext context = nullptr;
  WORKS(cuDevicePrimaryCtxRetain(&context, 0));
  WORKS(cuCtxSetCurrent(context));
  contexts(context);
  pointers(context);
  modules();
  graphs();
  words();
  threadsStreams(context);
  if (count > 1)
    goneHandles();
  WORKS(cuDevicePrimaryCtxRelease(0));
  CUdeviceptr memory = 0;
  GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&memory, 64));
  std::printf(failures ? "%d FAILED\n" : "all right\n", failures);
  return failures ? 1 : 0;
}
