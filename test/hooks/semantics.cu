// CUDA's guarantees, which hold for work of any class: symbols, order between streams, events and
// the default stream, copies, errors of launches, frees. The program does not mention Tally.
#include "check.h"

#include <vector>

namespace {

constexpr int count = 1 << 14;

__constant__ int addends[4];
__device__ int touched;
__managed__ int managed[8];

__global__ void step(int *data, int n, int rounds) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    for (int r = 0; r < rounds; ++r)
      data[i] = data[i] * 3 + addends[r & 3];
  if (threadIdx.x == 0)
    atomicAdd(&touched, 1);
}

__global__ void addInto(int *to, const int *from, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    to[i] = to[i] * 5 + from[i];
}

__global__ void reverse(int *data) {
  extern __shared__ int block[];
  block[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = block[blockDim.x - 1 - threadIdx.x];
}

__global__ void writeManaged(int value) { managed[threadIdx.x] += value; }

int stepped(int value, int rounds) {
  const int known[4] = {1, 7, 2, 5};
  unsigned v = static_cast<unsigned>(value);
  for (int r = 0; r < rounds; ++r)
    v = v * 3 + known[r & 3];
  return static_cast<int>(v);
}

int *deviceArray(int value = 0) {
  int *data = nullptr;
  MUST(cudaMalloc(&data, count * sizeof(int)));
  std::vector<int> host(count, value);
  MUST(cudaMemcpy(data, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  return data;
}

void launchStep(int *data, int rounds, cudaStream_t stream = 0) {
  step<<<64, 128, 0, stream>>>(data, count, rounds);
  MUST(cudaGetLastError());
}

void symbols() {
  int zero = 0, seen = -1;
  MUST(cudaMemcpyToSymbol(touched, &zero, sizeof zero));
  int *data = deviceArray(2);
  launchStep(data, 3);
  launchStep(data, 2);
  MUST(cudaMemcpyFromSymbol(&seen, touched, sizeof seen));
  EXPECT(seen == 128);
  int first = 0;
  MUST(cudaMemcpy(&first, data, sizeof first, cudaMemcpyDeviceToHost));
  EXPECT(first == stepped(stepped(2, 3), 2));
  for (int i = 0; i < 5; ++i)
    writeManaged<<<1, 8>>>(i);
  MUST(cudaDeviceSynchronize());
  EXPECT(managed[7] == 10);
  void *address = nullptr;
  MUST(cudaGetSymbolAddress(&address, touched));
  EXPECT(address != nullptr);
  MUST(cudaFree(data));
}

/// Blocking and non-blocking streams, ordered by events; each adds the other's values.
void streamsAndEvents() {
  cudaStream_t a, b;
  MUST(cudaStreamCreate(&a));
  MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  cudaEvent_t ready, taken, start, stop;
  MUST(cudaEventCreate(&ready));
  MUST(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
  MUST(cudaEventCreate(&start));
  MUST(cudaEventCreate(&stop));
  int *x = deviceArray(1), *y = deviceArray(4);
  unsigned wantX = 1, wantY = 4;
  MUST(cudaEventRecord(start, a));
  for (int round = 0; round < 20; ++round) {
    launchStep(x, 2, a);
    MUST(cudaEventRecord(ready, a));
    MUST(cudaStreamWaitEvent(b, ready, 0));
    addInto<<<(count + 255) / 256, 256, 0, b>>>(y, x, count);
    MUST(cudaEventRecord(taken, b));
    MUST(cudaStreamWaitEvent(a, taken, 0));
    wantX = static_cast<unsigned>(stepped(static_cast<int>(wantX), 2));
    wantY = wantY * 5 + wantX;
  }
  MUST(cudaEventRecord(stop, a));
  MUST(cudaEventSynchronize(stop));
  float ms = -1;
  MUST(cudaEventElapsedTime(&ms, start, stop));
  EXPECT(ms >= 0);
  EXPECT_STATUS(cudaEventQuery(stop), cudaSuccess);
  MUST(cudaStreamSynchronize(b));
  EXPECT_STATUS(cudaStreamQuery(b), cudaSuccess);
  std::vector<int> hostX(count), hostY(count);
  MUST(cudaMemcpy(hostX.data(), x, count * sizeof(int), cudaMemcpyDeviceToHost));
  MUST(cudaMemcpy(hostY.data(), y, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; i += 97) {
    EXPECT(hostX[i] == static_cast<int>(wantX));
    EXPECT(hostY[i] == static_cast<int>(wantY));
  }
  // The work finishes and the handles are destroyed, in every order.
  launchStep(x, 1, a);
  MUST(cudaEventRecord(ready, a));
  MUST(cudaEventDestroy(ready));
  MUST(cudaStreamDestroy(a));
  MUST(cudaFree(x));
  MUST(cudaStreamDestroy(b));
  MUST(cudaFree(y));
  for (cudaEvent_t each : {taken, start, stop})
    MUST(cudaEventDestroy(each));
}

/// The default stream and a blocking stream take turns without any event.
void defaultStream() {
  cudaStream_t blocking;
  MUST(cudaStreamCreate(&blocking));
  int *data = deviceArray(3);
  unsigned want = 3;
  for (int round = 0; round < 10; ++round) {
    launchStep(data, 1, blocking);
    launchStep(data, 2, cudaStreamLegacy);
    want = static_cast<unsigned>(stepped(stepped(static_cast<int>(want), 1), 2));
  }
  int got = 0;
  MUST(cudaMemcpy(&got, data + 5, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == static_cast<int>(want));
  MUST(cudaStreamDestroy(blocking));
  MUST(cudaFree(data));
}

/// The call reads pageable sources; pinned sources are read in the order of the stream.
void copies() {
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int *data = deviceArray(0), *pinned = nullptr;
  MUST(cudaMallocHost(&pinned, count * sizeof(int)));
  std::vector<int> pageable(count, 6);
  for (int i = 0; i < count; ++i)
    pinned[i] = i;
  MUST(cudaMemcpyAsync(data, pinned, count * sizeof(int), cudaMemcpyHostToDevice, stream));
  launchStep(data, 4, stream);
  MUST(cudaMemcpyAsync(data, pageable.data(), 100 * sizeof(int), cudaMemcpyHostToDevice, stream));
  pageable.assign(count, 0);
  launchStep(data, 1, stream);
  MUST(cudaMemcpyAsync(pinned, data, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  EXPECT(pinned[0] == stepped(6, 1));
  EXPECT(pinned[99] == stepped(6, 1));
  EXPECT(pinned[100] == stepped(stepped(100, 4), 1));
  EXPECT(pinned[count - 1] == stepped(stepped(count - 1, 4), 1));
  launchStep(data, 1, stream);
  MUST(cudaMemsetAsync(data, 0, 64 * sizeof(int), stream));
  MUST(cudaMemcpy2DAsync(data + 64, 32 * sizeof(int), data, 16 * sizeof(int), 16 * sizeof(int), 2,
                         cudaMemcpyDeviceToDevice, stream));
  MUST(cudaMemcpyAsync(pinned, data, 256 * sizeof(int), cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  EXPECT(pinned[63] == 0);
  EXPECT(pinned[64] == 0);
  EXPECT(pinned[64 + 16] != 0);
  EXPECT(pinned[64 + 32] == 0);
  MUST(cudaFreeHost(pinned));
  MUST(cudaFree(data));
  MUST(cudaStreamDestroy(stream));
}

void hostFunctions() {
  struct Order {
    int *seen, value;
  };
  static int log[4];
  static int logged = 0;
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  int *data = deviceArray(1);
  for (int i = 0; i < 4; ++i) {
    launchStep(data, 1, stream);
    MUST(cudaLaunchHostFunc(
        stream, [](void *value) { log[logged++] = *static_cast<int *>(value); }, new int(i)));
  }
  MUST(cudaStreamSynchronize(stream));
  EXPECT(logged == 4);
  for (int i = 0; i < 4; ++i)
    EXPECT(log[i] == i);
  MUST(cudaFree(data));
  MUST(cudaStreamDestroy(stream));
}

void errors() {
  int *data = deviceArray(1);
  EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
  step<<<1, 4096>>>(data, count, 1);
  EXPECT_STATUS(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_STATUS(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_STATUS(cudaGetLastError(), cudaSuccess);
  // Within limits again it runs.
  launchStep(data, 1);
  EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
  MUST(cudaFree(data));
}

/// More dynamic shared memory than a block has by default.
void sharedMemory() {
  MUST(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 80000));
  std::vector<int> host(count);
  for (int i = 0; i < count; ++i)
    host[i] = i;
  int *data = deviceArray(0);
  MUST(cudaMemcpy(data, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  for (int i = 0; i < 3; ++i)
    reverse<<<1, 256, 80000>>>(data);
  MUST(cudaGetLastError());
  MUST(cudaMemcpy(host.data(), data, 256 * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(host[0] == 255);
  EXPECT(host[255] == 0);
  MUST(cudaFree(data));
}

void orderedAllocation() {
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  int sum = 0;
  for (int i = 0; i < 5; ++i) {
    int *data = nullptr, first = 0;
    MUST(cudaMallocAsync(reinterpret_cast<void **>(&data), count * sizeof(int), stream));
    MUST(cudaMemsetAsync(data, 0, count * sizeof(int), stream));
    launchStep(data, 2, stream);
    MUST(cudaMemcpyAsync(&first, data, sizeof first, cudaMemcpyDeviceToHost, stream));
    MUST(cudaFreeAsync(data, stream));
    MUST(cudaStreamSynchronize(stream));
    sum += first;
  }
  EXPECT(sum == 5 * stepped(0, 2));
  MUST(cudaStreamDestroy(stream));
}

/// A capture of kernels, launched as a graph between kernels on the same stream.
void graphs() {
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int *data = deviceArray(1);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  launchStep(data, 1, stream);
  cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  if (begun == cudaErrorNotSupported) {
    std::printf("graphs: not served here\n");
    return;
  }
  MUST(begun);
  launchStep(data, 2, stream);
  launchStep(data, 3, stream);
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  unsigned want = static_cast<unsigned>(stepped(1, 1));
  for (int i = 0; i < 3; ++i) {
    MUST(cudaGraphLaunch(executable, stream));
    launchStep(data, 1, stream);
    want = static_cast<unsigned>(stepped(stepped(stepped(static_cast<int>(want), 2), 3), 1));
  }
  int got = 0;
  MUST(cudaStreamSynchronize(stream));
  MUST(cudaMemcpy(&got, data, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == static_cast<int>(want));
  MUST(cudaGraphExecDestroy(executable));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(data));
}

} // namespace

int main() {
  const int known[4] = {1, 7, 2, 5};
  MUST(cudaMemcpyToSymbol(addends, known, sizeof known));
  symbols();
  streamsAndEvents();
  defaultStream();
  copies();
  hostFunctions();
  errors();
  sharedMemory();
  orderedAllocation();
  graphs();
  EXPECT_STATUS(cudaDeviceSynchronize(), cudaSuccess);
  return verdict();
}
