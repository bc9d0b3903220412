// Work on several streams by the CUDA driver alone, in an order that events, default streams and
// words of memory define. A model on the host computes each step at the call. The results must
// equal the model's in every timing.
#include "lanes.h"

#include <algorithm>
#include <deque>
#include <thread>
#include <vector>

namespace {

class Work {
public:
  Work();
  void run();
  void runThread(CUcontext context);
  /// Prints the digest and the errors.
  int finish();

private:
  void step();
  void mix(Lane &lane, unsigned rounds);
  void combineAcross(Lane &to, Lane &from);
  void combineByWords(Lane &to, Lane &from);
  void combineByDefaultStream();
  void copyIn(Lane &lane);
  void copyOut(Lane &lane);
  void copyRows(Lane &lane);
  void fill(Lane &lane);
  void allocate(Lane &lane);
  void ask(Lane &lane);
  void launchGraph(Lane &lane);
  void capture(Lane &lane, CUstream side);
  void combine(CUstream stream, CUdeviceptr to, CUdeviceptr from);
  std::uint32_t *pinnedChunk();

  Kernels kernels;
  Random random{2026};
  std::deque<Lane> lanes;
  Lane threadsLane;
  std::deque<Answer> answers;
  std::uint32_t *pinned = nullptr;
  unsigned pinnedUsed = 0, launches = 0, wordsUsed = 0;
  CUdeviceptr flags = 0;
};

Work::Work() {
  int least = 0, greatest = 0;
  MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
  for (int i = 0; i < 7; ++i)
    lanes.emplace_back();
  // Stream 0 is the legacy default stream. Streams 1 and 2 and the thread's own default stream wait
  // for it, and it waits for them.
  MUST(cuStreamCreate(&lanes[1].stream, CU_STREAM_DEFAULT));
  MUST(cuStreamCreateWithPriority(&lanes[2].stream, CU_STREAM_DEFAULT, greatest));
  MUST(cuStreamCreate(&lanes[3].stream, CU_STREAM_NON_BLOCKING));
  MUST(cuStreamCreate(&lanes[4].stream, CU_STREAM_NON_BLOCKING));
  MUST(cuStreamCreateWithPriority(&lanes[5].stream, CU_STREAM_NON_BLOCKING, least));
  lanes[6].stream = CU_STREAM_PER_THREAD;
  auto prepare = [](Lane &lane) {
    for (CUdeviceptr *each : {&lane.data, &lane.scratch}) {
      MUST(cuMemAlloc(each, count * sizeof(std::uint32_t)));
      MUST(cuMemsetD8(*each, 0, count * sizeof(std::uint32_t)));
    }
  };
  for (Lane &each : lanes)
    prepare(each);
  prepare(threadsLane);
  MUST(cuMemAllocHost(reinterpret_cast<void **>(&pinned), 1 << 20));
  MUST(cuMemAlloc(&flags, flagWords * sizeof(std::uint32_t)));
  MUST(cuMemsetD32(flags, 0, flagWords));
  MUST(cuCtxSynchronize());
  CUstream side = nullptr;
  MUST(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
  for (int i : {1, 3, 5})
    capture(lanes[static_cast<std::size_t>(i)], side);
  MUST(cuStreamDestroy(side));
}

/// Kernels, a fill and a copy in two branches.
void Work::capture(Lane &lane, CUstream side) {
  CUevent fork = nullptr, join = nullptr;
  MUST(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  MUST(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  MUST(cuStreamBeginCapture(lane.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuEventRecord(fork, lane.stream));
  MUST(cuStreamWaitEvent(side, fork, 0));
  MUST(cuMemsetD32Async(lane.scratch, 5, count, side));
  unsigned size = count, seed = 77, rounds = 3;
  void *arguments[] = {&lane.data, &size, &seed, &rounds};
  MUST(cuLaunchKernel(kernels.mix, count / block, 1, 1, block, 1, 1, 0, lane.stream, arguments,
                      nullptr));
  MUST(cuEventRecord(join, side));
  MUST(cuStreamWaitEvent(lane.stream, join, 0));
  combine(lane.stream, lane.data, lane.scratch);
  MUST(cuMemcpyDtoDAsync(lane.scratch, lane.data, chunk * sizeof(std::uint32_t), lane.stream));
  CUgraph graph = nullptr;
  MUST(cuStreamEndCapture(lane.stream, &graph));
  MUST(cuGraphInstantiateWithFlags(&lane.graph, graph, 0));
  MUST(cuGraphDestroy(graph));
  MUST(cuEventDestroy(fork));
  MUST(cuEventDestroy(join));
}

void Work::launchGraph(Lane &lane) {
  MUST(cuGraphLaunch(lane.graph, lane.stream));
  mixModel(lane.model, 77, 3);
  lane.scratchModel.assign(count, 5);
  combineModel(lane.model, lane.scratchModel);
  std::copy_n(lane.model.begin(), chunk, lane.scratchModel.begin());
}

void Work::combine(CUstream stream, CUdeviceptr to, CUdeviceptr from) {
  // Launches with one buffer that holds all arguments.
  struct {
    CUdeviceptr to, from;
    unsigned count;
  } packed{to, from, count};
  std::size_t bytes = sizeof packed;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  MUST(
      cuLaunchKernel(kernels.combine, count / block, 1, 1, block, 1, 1, 0, stream, nullptr, extra));
}

void Work::mix(Lane &lane, unsigned rounds) {
  unsigned size = count, seed = random.below(1000);
  void *arguments[] = {&lane.data, &size, &seed, &rounds};
  if (seed % 3 == 0) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    if (seed % 2 == 0) {
      attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attribute.value.clusterDim = {2, 1, 1};
    }
    CUlaunchConfig config{count / block, 1, 1, block, 1, 1, 0, lane.stream, &attribute, 1};
    MUST(cuLaunchKernelEx(&config, kernels.mix, arguments, nullptr));
  } else if (seed % 12 == 1) {
    unsigned fewer = 4 * block; // each thread has one element
    size = fewer;
    MUST(cuLaunchCooperativeKernel(kernels.mix, 4, 1, 1, block, 1, 1, 0, lane.stream, arguments));
    Words rest(lane.model.begin() + fewer, lane.model.end());
    mixModel(lane.model, seed, rounds);
    std::ranges::copy(rest, lane.model.begin() + fewer);
    ++launches;
    return;
  } else {
    MUST(cuLaunchKernel(kernels.mix, count / block, 1, 1, block, 1, 1, 0, lane.stream, arguments,
                        nullptr));
  }
  ++launches;
  mixModel(lane.model, seed, rounds);
}

/// Two streams wait for each other's events in turns.
void Work::combineAcross(Lane &to, Lane &from) {
  CUevent events[2] = {};
  for (CUevent &each : events)
    MUST(cuEventCreate(&each, CU_EVENT_DISABLE_TIMING));
  MUST(cuEventRecord(events[0], from.stream));
  MUST(cuStreamWaitEvent(to.stream, events[0], 0));
  combine(to.stream, to.data, from.data);
  MUST(cuEventRecord(events[1], to.stream));
  MUST(cuStreamWaitEvent(from.stream, events[1], 0));
  for (CUevent each : events)
    MUST(cuEventDestroy(each));
  ++launches;
  combineModel(to.model, from.model);
}

/// The same by words that one stream writes and the other waits for, two words for each use.
void Work::combineByWords(Lane &to, Lane &from) {
  CUdeviceptr there = flags + wordsUsed * sizeof(std::uint32_t),
              back = there + sizeof(std::uint32_t);
  wordsUsed += 2;
  if (wordsUsed > flagWords)
    fail("too few words");
  MUST(cuStreamWriteValue32(from.stream, there, wordsUsed, 0));
  MUST(cuStreamWaitValue32(to.stream, there, wordsUsed, CU_STREAM_WAIT_VALUE_GEQ));
  combine(to.stream, to.data, from.data);
  CUstreamBatchMemOpParams write{};
  write.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  write.writeValue.address = back;
  write.writeValue.value = wordsUsed;
  MUST(cuStreamBatchMemOp(to.stream, 1, &write, 0));
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = back;
  wait.waitValue.value = wordsUsed;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  MUST(cuStreamBatchMemOp(from.stream, 1, &wait, 0));
  ++launches;
  combineModel(to.model, from.model);
}

/// Ordered by the rules of the legacy default stream alone.
void Work::combineByDefaultStream() {
  Lane &legacy = lanes[0];
  constexpr unsigned blocking[] = {1, 2, 6};
  Lane &other = lanes[blocking[random.below(3)]];
  bool isByLegacy = random.below(2) == 0;
  Lane &to = isByLegacy ? other : legacy;
  Lane &from = isByLegacy ? legacy : other;
  combine(isByLegacy ? legacy.stream : other.stream, to.data, from.data);
  ++launches;
  combineModel(to.model, from.model);
  // Operations on the legacy stream order the blocking streams' work before and after them.
  if (!isByLegacy)
    mix(legacy, 1);
}

void Work::copyIn(Lane &lane) {
  unsigned at = random.below(count - chunk), value = random.below(1u << 20);
  std::size_t bytes = chunk * sizeof(std::uint32_t);
  CUdeviceptr to = lane.data + at * sizeof(std::uint32_t);
  if (random.below(2) == 0) {
    // The program may change pageable memory as soon as the call returns.
    std::uint32_t pageable[chunk];
    std::fill_n(pageable, chunk, value);
    MUST(cuMemcpyHtoDAsync(to, pageable, bytes, lane.stream));
    std::fill_n(pageable, chunk, ~value);
  } else {
    std::uint32_t *from = pinnedChunk();
    std::fill_n(from, chunk, value);
    MUST(cuMemcpyHtoDAsync(to, from, bytes, lane.stream));
  }
  std::fill_n(lane.model.begin() + at, chunk, value);
}

void Work::copyOut(Lane &lane) {
  unsigned at = random.below(count - chunk);
  std::size_t bytes = chunk * sizeof(std::uint32_t);
  CUdeviceptr from = lane.data + at * sizeof(std::uint32_t);
  std::uint32_t *to = pinnedChunk();
  switch (random.below(3)) {
  case 0:
    MUST(cuMemcpyDtoHAsync(to, from, bytes, lane.stream));
    break;
  case 1: {
    std::uint32_t pageable[chunk];
    MUST(cuMemcpyDtoHAsync(pageable, from, bytes, lane.stream));
    MUST(cuStreamSynchronize(lane.stream));
    std::copy_n(pageable, chunk, to);
    break;
  }
  default:
    MUST(cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, lane.stream));
  }
  answers.push_back({to, Words(lane.model.begin() + at, lane.model.begin() + at + chunk)});
}

/// Copies every other row of the memory, with 32 words a row, into the scratch memory without gaps.
void Work::copyRows(Lane &lane) {
  constexpr unsigned row = 32, rows = count / (2 * row);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = lane.data;
  copy.dstDevice = lane.scratch;
  copy.srcPitch = 2 * row * sizeof(std::uint32_t);
  copy.WidthInBytes = copy.dstPitch = row * sizeof(std::uint32_t);
  copy.Height = rows;
  MUST(cuMemcpy2DAsync(&copy, lane.stream));
  for (unsigned y = 0; y < rows; ++y)
    std::copy_n(lane.model.begin() + 2 * row * y, row, lane.scratchModel.begin() + row * y);
  combine(lane.stream, lane.data, lane.scratch);
  ++launches;
  combineModel(lane.model, lane.scratchModel);
}

void Work::fill(Lane &lane) {
  unsigned at = random.below(count - chunk), value = random.below(1u << 16);
  CUdeviceptr to = lane.data + at * sizeof(std::uint32_t);
  switch (random.below(3)) {
  case 0:
    value &= 0xff;
    MUST(cuMemsetD8Async(to, static_cast<unsigned char>(value), chunk * 4, lane.stream));
    value *= 0x01010101u;
    break;
  case 1:
    MUST(cuMemsetD16Async(to, static_cast<unsigned short>(value), chunk * 2, lane.stream));
    value *= 0x00010001u;
    break;
  default:
    MUST(cuMemsetD32Async(to, value, chunk, lane.stream));
  }
  std::fill_n(lane.model.begin() + at, chunk, value);
}

void Work::allocate(Lane &lane) {
  CUdeviceptr memory = 0;
  unsigned value = random.below(1u << 30);
  MUST(cuMemAllocAsync(&memory, count * sizeof(std::uint32_t), lane.stream));
  MUST(cuMemsetD32Async(memory, value, count, lane.stream));
  combine(lane.stream, lane.data, memory);
  MUST(cuMemFreeAsync(memory, lane.stream));
  ++launches;
  combineModel(lane.model, Words(count, value));
}

/// Queries the stream until it is idle.
void Work::ask(Lane &lane) {
  CUevent event = nullptr;
  MUST(cuEventCreate(&event, CU_EVENT_DEFAULT));
  MUST(cuEventRecord(event, lane.stream));
  bool isByEvent = random.below(2) == 0;
  CUresult state = CUDA_ERROR_NOT_READY;
  while (state == CUDA_ERROR_NOT_READY) {
    std::this_thread::yield();
    state = isByEvent ? driver().cuEventQuery(event) : driver().cuStreamQuery(lane.stream);
  }
  must(state, "query", __LINE__);
  MUST(cuEventSynchronize(event));
  MUST(cuEventDestroy(event));
  // The results of host functions are complete too.
  if (lane.order.done != lane.order.model)
    fail("a stream is done before its functions of the host are");
}

std::uint32_t *Work::pinnedChunk() {
  std::uint32_t *result = pinned + pinnedUsed;
  pinnedUsed += chunk;
  if (pinnedUsed * sizeof(std::uint32_t) > 1u << 20)
    fail("too little pinned memory");
  return result;
}

void Work::step() {
  auto number = static_cast<unsigned>(lanes.size());
  unsigned at = random.below(number);
  Lane &lane = lanes[at], &other = lanes[(at + 1 + random.below(number - 1)) % number];
  switch (random.below(16)) {
  case 0:
    return combineAcross(lane, other);
  case 1:
    return combineByWords(lane, other);
  case 2:
    return combineByDefaultStream();
  case 3:
    return copyIn(lane);
  case 4:
    return copyOut(lane);
  case 5:
    return fill(lane);
  case 6:
    return allocate(lane);
  case 7:
    return ask(lane);
  case 8:
    return copyRows(lane);
  case 9:
    MUST(cuLaunchHostFunc(lane.stream, &Order::run, lane.order.add(random.below(1000))));
    return;
  case 10:
    return lane.graph ? launchGraph(lane) : mix(lane, 400);
  case 11: {
    unsigned size = count;
    void *arguments[] = {&lane.data, &size};
    MUST(cuLaunchKernel(kernels.addTable, count / block, 1, 1, block, 1, 1, 0, lane.stream,
                        arguments, nullptr));
    ++launches;
    for (unsigned i = 0; i < count; ++i)
      lane.model[i] += kernels.table[i % 64];
    return;
  }
  default:
    return mix(lane, 1 + random.below(8));
  }
}

void Work::run() {
  while (launches < allLaunches - launchesOfThread)
    step();
}

/// Work on a thread's own default stream, by the calls' forms for it.
void Work::runThread(CUcontext context) {
  MUST(cuCtxSetCurrent(context));
  Random own{7};
  Lane &lane = threadsLane;
  unsigned size = count, rounds = 5;
  std::uint32_t values[chunk];
  for (unsigned i = 0; i < launchesOfThread; ++i) {
    unsigned seed = own.below(1000), at = own.below(count - chunk);
    CUdeviceptr to = lane.data + at * sizeof(std::uint32_t);
    void *arguments[] = {&lane.data, &size, &seed, &rounds};
    if (i % 2 == 0) {
      MUST(thread_cuLaunchKernel(kernels.mix, count / block, 1, 1, block, 1, 1, 0, nullptr,
                                 arguments, nullptr));
    } else {
      CUlaunchConfig config{count / block, 1, 1, block, 1, 1, 0, nullptr, nullptr, 0};
      MUST(thread_cuLaunchKernelEx(&config, kernels.mix, arguments, nullptr));
    }
    mixModel(lane.model, seed, rounds);
    std::fill_n(values, chunk, seed);
    if (i % 3 == 0)
      MUST(thread_cuMemsetD32Async(to, seed, chunk, nullptr));
    else if (i % 3 == 1)
      MUST(thread_cuMemcpyHtoDAsync(to, values, sizeof values, nullptr));
    else
      MUST(thread_cuMemcpyHtoD(to, values, sizeof values));
    std::fill_n(lane.model.begin() + at, chunk, seed);
    MUST(thread_cuLaunchHostFunc(nullptr, &Order::run, lane.order.add(seed)));
    if (i % 10 == 9) {
      while (driver().thread_cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY)
        std::this_thread::yield();
      MUST(thread_cuMemcpyDtoHAsync(values, to, sizeof values, nullptr));
      MUST(thread_cuStreamSynchronize(nullptr));
      if (values[0] != seed || values[chunk - 1] != seed)
        fail("the thread's copy is wrong");
    }
  }
  MUST(thread_cuStreamSynchronize(nullptr));
}

int Work::finish() {
  // Code that is unloaded while it runs still runs to its end.
  for (Lane &each : lanes)
    mix(each, 100);
  launches -= static_cast<unsigned>(lanes.size()); // beyond those that are counted
  MUST(cuModuleUnload(kernels.module));
  MUST(cuLibraryUnload(kernels.library));
  MUST(cuCtxSynchronize());
  Digest digest;
  auto look = [&](Lane &lane) {
    Words now(count);
    MUST(cuMemcpyDtoH(now.data(), lane.data, count * sizeof(std::uint32_t)));
    digest.add(now.data(), lane.model);
    digest.add(&lane.order.done, Words{lane.order.model});
    MUST(cuMemFree(lane.data));
    MUST(cuMemFree(lane.scratch));
    if (lane.graph)
      MUST(cuGraphExecDestroy(lane.graph));
    if (lane.stream && lane.stream != CU_STREAM_PER_THREAD)
      MUST(cuStreamDestroy(lane.stream));
  };
  for (Lane &each : lanes)
    look(each);
  look(threadsLane);
  for (const Answer &each : answers)
    digest.add(each.pinned, each.model);
  MUST(cuMemFreeHost(pinned));
  MUST(cuMemFree(flags));
  std::printf("digest %016llx of %u launches, %zu of %zu words wrong\n",
              static_cast<unsigned long long>(digest.hash), launches + launchesOfThread,
              digest.isWrong, digest.number);
  return digest.isWrong == 0 ? 0 : 1;
}

} // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  Work work;
  std::thread other([&] { work.runThread(context); });
  work.run();
  other.join();
  int status = work.finish();
  MUST(cuDevicePrimaryCtxRelease(device));
  return status;
}
