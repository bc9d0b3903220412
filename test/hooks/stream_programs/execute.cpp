#include "execute.h"

#include "graphs.h"
#include "kernels.h"
#include "order.h"

#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>

namespace tally::programs {

namespace {

void must(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorName(status));
  std::fflush(stdout);
  std::_Exit(3);
}

std::uint64_t mixedIn(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 0x9e3779b97f4a7c15u + (hash >> 29);
}

std::uint64_t hashOf(const std::uint32_t *words, std::uint32_t count) {
  std::uint64_t hash = count;
  for (std::uint32_t i = 0; i < count; ++i)
    hash = mixedIn(hash, words[i]);
  return hash;
}

struct Token {
  std::atomic<bool> given{false};
};

struct Done {
  int code = cudaSuccess;
  std::uint64_t data = 0;
};

class Execution {
public:
  Execution(const Program &program, const ExecuteOptions &options)
      : program(program), options(options), order(program), done(program.operations.size()),
        hostCalls(program.operations.size()) {
    for (const Operation &each : program.operations) {
      bool admitted = order.admit(each);
      assert(admitted && "the program has more than one answer");
      static_cast<void>(admitted);
      handles.need(each);
      if (each.token >= static_cast<int>(tokens.size()))
        tokens.resize(static_cast<std::size_t>(each.token) + 1);
    }
  }

  Outcome run(Workers &workers) {
    begin();
    workers.run(program.threads, [this](int thread) {
      for (std::size_t i = 0; i < program.operations.size(); ++i)
        if (program.operations[i].thread == thread)
          perform(i);
    });
    return end();
  }

private:
  void begin();
  Outcome end();
  void perform(std::size_t at);
  cudaError_t call(std::size_t at);
  cudaError_t createStream(const Operation &operation);
  cudaError_t allocate(const Operation &operation);
  cudaError_t release(const Operation &operation);
  cudaError_t launch(const Operation &operation);
  cudaError_t badLaunch(const Operation &operation, Done &result);
  cudaError_t badCall(const Operation &operation, Done &result);
  cudaError_t copy(const Operation &operation);
  cudaError_t host(const Operation &operation, Done &result);
  cudaError_t query(std::size_t at, cudaError_t status);
  cudaError_t graph(const Operation &operation);

  cudaStream_t streamOf(const Operation &operation) { return handles.streamOf(operation.stream); }
  cudaEvent_t &eventOf(const Operation &operation) {
    return handles.events[static_cast<std::size_t>(operation.event)];
  }
  Buffer &bufferOf(int number) { return handles.buffers[static_cast<std::size_t>(number)]; }

  const Program &program;
  const ExecuteOptions &options;
  Order order;
  Handles handles;
  std::vector<Done> done;
  std::vector<HostCall> hostCalls;
  std::deque<Token> tokens;
  std::vector<std::unique_ptr<Graph>> graphs;
};

void Execution::begin() {
  const std::vector<std::uint32_t> zeros(symbolWords);
  must(cudaMemcpyToSymbol(tableSymbol(), zeros.data(), symbolWords * 4), "clearing the symbol");
  void *address = nullptr;
  must(cudaGetSymbolAddress(&address, tableSymbol()), "cudaGetSymbolAddress");
  bufferOf(0).words = static_cast<std::uint32_t *>(address);
  bufferOf(0).size = symbolWords;
  bufferOf(0).memory = Memory::Symbol;
  std::size_t meetings = handles.buffers.size() * sizeof(std::uint32_t);
  must(cudaMalloc(reinterpret_cast<void **>(&handles.meetings), meetings), "cudaMalloc");
  must(cudaMemset(handles.meetings, 0, meetings), "cudaMemset");
  for (int i = 0; i < program.events; ++i)
    must(cudaEventCreateWithFlags(&handles.events.emplace_back(),
                                  i % 2 == 0 ? cudaEventDisableTiming : cudaEventDefault),
         "cudaEventCreateWithFlags");
  for (int i = 0; i < program.threads; ++i) {
    Side &side = handles.sides.emplace_back();
    must(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking), "cudaStreamCreate");
    for (cudaEvent_t *each : {&side.fork, &side.join})
      must(cudaEventCreateWithFlags(each, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  graphs.resize(handles.graphs);
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

Outcome Execution::end() {
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize at the end");
  Outcome outcome;
  auto add = [&](auto what, const Done &each) {
    outcome.hash = mixedIn(mixedIn(outcome.hash, static_cast<std::uint64_t>(each.code)), each.data);
    if (options.keepText) {
      char line[64];
      std::snprintf(line, sizeof line, " -> %d %016llx", each.code,
                    static_cast<unsigned long long>(each.data));
      outcome.text.push_back(what() + line);
    }
  };
  for (std::size_t i = 0; i < done.size(); ++i)
    add([&, i] { return std::to_string(i) + " " + print(program.operations[i]); }, done[i]);
  for (const auto &[number, state] : order.allBuffers()) {
    Buffer &buffer = bufferOf(number);
    if (!state.live || !state.filled || !buffer.words)
      continue;
    std::vector<std::uint32_t> words(buffer.size);
    must(cudaMemcpy(words.data(), buffer.words, buffer.size * 4, cudaMemcpyDefault), "cudaMemcpy");
    add([n = number] { return "buffer " + std::to_string(n); },
        {cudaSuccess, hashOf(words.data(), buffer.size)});
  }
  graphs.clear();
  handles.release();
  add([] { return std::string("last error"); }, {cudaGetLastError(), 0});
  return outcome;
}

void Execution::perform(std::size_t at) {
  // Operations of a graph run while the graph is being built.
  const Operation &operation = program.operations[at];
  if (operation.graph >= 0 && operation.kind != OperationKind::GraphEnd &&
      operation.kind != OperationKind::GraphLaunch &&
      operation.kind != OperationKind::GraphUpdate && operation.kind != OperationKind::GraphDestroy)
    return;
  done[at].code = call(at);
}

cudaError_t Execution::call(std::size_t at) {
  using enum OperationKind;
  const Operation &operation = program.operations[at];
  switch (operation.kind) {
  case CreateStream:
    return createStream(operation);
  case DestroyStream:
    return cudaStreamDestroy(streamOf(operation));
  case Allocate:
    return allocate(operation);
  case Free:
    return release(operation);
  case Launch:
    return launch(operation);
  case BadLaunch:
    return badLaunch(operation, done[at]);
  case BadCall:
    return badCall(operation, done[at]);
  case Fill:
    return cudaMemsetAsync(bufferOf(operation.to).words, static_cast<int>(operation.value & 255),
                           bufferOf(operation.to).size * 4, streamOf(operation));
  case FillNow:
    return cudaMemset(bufferOf(operation.to).words, static_cast<int>(operation.value & 255),
                      bufferOf(operation.to).size * 4);
  case Copy:
  case CopyNow:
    return copy(operation);
  case HostFunction:
    hostCalls[at] = {bufferOf(operation.to).words, bufferOf(operation.to).size, operation.value};
    return cudaLaunchHostFunc(streamOf(operation), &HostCall::run, &hostCalls[at]);
  case RecordEvent:
    return cudaEventRecord(eventOf(operation), streamOf(operation));
  case WaitEvent:
    return cudaStreamWaitEvent(streamOf(operation), eventOf(operation), 0);
  case SynchronizeEvent:
    return cudaEventSynchronize(eventOf(operation));
  case RenewEvent: {
    cudaError_t destroyed = cudaEventDestroy(eventOf(operation));
    cudaError_t made = cudaEventCreateWithFlags(&eventOf(operation), cudaEventDisableTiming);
    return destroyed != cudaSuccess ? destroyed : made;
  }
  case SynchronizeStream:
    return cudaStreamSynchronize(streamOf(operation));
  case SynchronizeDevice:
    return cudaDeviceSynchronize();
  case QueryEvent:
    return query(at, cudaEventQuery(eventOf(operation)));
  case QueryStream:
    return query(at, cudaStreamQuery(streamOf(operation)));
  case PollEvent:
  case PollStream:
    while (true) {
      cudaError_t status = operation.kind == PollEvent ? cudaEventQuery(eventOf(operation))
                                                       : cudaStreamQuery(streamOf(operation));
      if (status != cudaErrorNotReady)
        return status;
      cudaGetLastError();
      std::this_thread::yield();
    }
  case HostWrite:
  case HostRead:
    return host(operation, done[at]);
  case Signal:
    tokens[static_cast<std::size_t>(operation.token)].given.store(true);
    tokens[static_cast<std::size_t>(operation.token)].given.notify_all();
    return cudaSuccess;
  case Await:
    tokens[static_cast<std::size_t>(operation.token)].given.wait(false);
    return cudaSuccess;
  case GraphBegin:
    break;
  case GraphEnd:
  case GraphLaunch:
  case GraphUpdate:
  case GraphDestroy:
    return graph(operation);
  }
  return cudaSuccess;
}

cudaError_t Execution::createStream(const Operation &operation) {
  cudaStream_t &made = handles.streams[static_cast<std::size_t>(operation.stream)];
  unsigned flags = (operation.value & 1) != 0 ? cudaStreamNonBlocking : cudaStreamDefault;
  if (options.priorities == Priorities::None)
    return flags == cudaStreamDefault ? cudaStreamCreate(&made)
                                      : cudaStreamCreateWithFlags(&made, flags);
  int least = 0, greatest = 0;
  must(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  int wanted = options.priorities == Priorities::Lowest ? least : greatest + operation.level;
  return cudaStreamCreateWithPriority(&made, flags, std::min(wanted, least));
}

cudaError_t Execution::allocate(const Operation &operation) {
  Buffer &made = bufferOf(operation.to);
  made.size = operation.size;
  made.memory = operation.memory;
  std::size_t bytes = operation.size * sizeof(std::uint32_t);
  auto result = reinterpret_cast<void **>(&made.words);
  switch (operation.memory) {
  case Memory::Device:
    return cudaMalloc(result, bytes);
  case Memory::Ordered:
    return cudaMallocAsync(result, bytes, streamOf(operation));
  case Memory::Pinned:
    if (cudaError_t status = cudaMallocHost(result, bytes); status != cudaSuccess)
      return status;
    std::memset(made.words, 0, bytes);
    return cudaSuccess;
  default:
    made.pageable.assign(operation.size, 0);
    made.words = made.pageable.data();
    return cudaSuccess;
  }
}

cudaError_t Execution::release(const Operation &operation) {
  Buffer &old = bufferOf(operation.to);
  std::uint32_t *words = std::exchange(old.words, nullptr);
  switch (operation.memory) {
  case Memory::Device:
    return cudaFree(words);
  case Memory::Ordered:
    return cudaFreeAsync(words, streamOf(operation));
  case Memory::Pinned:
    return cudaFreeHost(words);
  default:
    return cudaSuccess;
  }
}

cudaError_t Execution::launch(const Operation &operation) {
  PackedCall packed;
  pack(handles.kernelCall(operation), packed);
  auto launchBy = packed.cooperative ? &cudaLaunchCooperativeKernel : nullptr;
  cudaStream_t stream = streamOf(operation);
  cudaError_t status = launchBy ? launchBy(packed.function, packed.grid, packed.block,
                                           packed.arguments, packed.sharedBytes, stream)
                                : cudaLaunchKernel(packed.function, packed.grid, packed.block,
                                                   packed.arguments, packed.sharedBytes, stream);
  // They were the call's.
  std::memset(packed.storage, 0xcc, sizeof packed.storage);
  return status;
}

cudaError_t Execution::badLaunch(const Operation &operation, Done &result) {
  KernelCall call;
  call.to = bufferOf(0).words;
  call.words = symbolWords;
  call.kernel = operation.value % 2 == 0 ? KernelId::Mix : KernelId::Bare;
  PackedCall packed;
  pack(call, packed);
  switch (operation.value % 4) {
  case 0:
    packed.block = dim3(2048);
    break;
  case 1:
    packed.grid = dim3(1, 70000);
    break;
  case 2:
    packed.sharedBytes = 100000;
    break;
  default:
    packed.block = dim3(1, 1, 65);
  }
  cudaError_t status = cudaLaunchKernel(packed.function, packed.grid, packed.block,
                                        packed.arguments, packed.sharedBytes, streamOf(operation));
  result.data = static_cast<std::uint64_t>(cudaPeekAtLastError()) * 1000 +
                static_cast<std::uint64_t>(cudaGetLastError());
  return status;
}

cudaError_t Execution::badCall(const Operation &operation, Done &result) {
  cudaStream_t stream = streamOf(operation);
  cudaError_t status = cudaSuccess;
  void *memory = nullptr;
  switch (operation.value % 6) {
  case 0:
    status = cudaMemcpyAsync(bufferOf(1).words, bufferOf(0).words, 64,
                             static_cast<cudaMemcpyKind>(77), stream);
    break;
  case 1:
    status = cudaMemsetAsync(nullptr, 0, 16, stream);
    break;
  case 2:
    status = cudaEventRecord(nullptr, stream);
    break;
  case 3:
    status = cudaMalloc(&memory, std::size_t{1} << 60);
    break;
  case 4:
    status = cudaLaunchHostFunc(stream, nullptr, nullptr);
    break;
  default:
    status = cudaStreamWaitEvent(stream, nullptr, 0);
  }
  result.data = static_cast<std::uint64_t>(cudaGetLastError());
  return status;
}

cudaError_t Execution::copy(const Operation &operation) {
  const Buffer &to = bufferOf(operation.to), &from = bufferOf(operation.from);
  std::size_t bytes = std::min(to.size, from.size) * sizeof(std::uint32_t);
  auto kind = !isOnHost(to.memory) && !isOnHost(from.memory) ? cudaMemcpyDeviceToDevice
              : isOnHost(to.memory)                          ? cudaMemcpyDeviceToHost
                                                             : cudaMemcpyHostToDevice;
  cudaStream_t stream = streamOf(operation);
  bool now = operation.kind == OperationKind::CopyNow;
  if (to.memory == Memory::Symbol)
    return now ? cudaMemcpyToSymbol(tableSymbol(), from.words, bytes, 0, kind)
               : cudaMemcpyToSymbolAsync(tableSymbol(), from.words, bytes, 0, kind, stream);
  if (from.memory == Memory::Symbol)
    return now ? cudaMemcpyFromSymbol(to.words, tableSymbol(), bytes, 0, kind)
               : cudaMemcpyFromSymbolAsync(to.words, tableSymbol(), bytes, 0, kind, stream);
  return now ? cudaMemcpy(to.words, from.words, bytes, kind)
             : cudaMemcpyAsync(to.words, from.words, bytes, kind, stream);
}

cudaError_t Execution::host(const Operation &operation, Done &result) {
  Buffer &buffer = bufferOf(operation.to);
  if (operation.kind == OperationKind::HostRead)
    result.data = hashOf(buffer.words, buffer.size);
  else
    for (std::uint32_t i = 0; i < buffer.size; ++i)
      buffer.words[i] = buffer.words[i] * 134775813u + operation.value + i;
  return cudaSuccess;
}

/// Either of two answers is right where the timing decides.
cudaError_t Execution::query(std::size_t at, cudaError_t status) {
  if (status == cudaErrorNotReady)
    cudaGetLastError();
  return status == cudaErrorNotReady && !order.isSettled(static_cast<int>(at)) ? cudaSuccess
                                                                               : status;
}

cudaError_t Execution::graph(const Operation &operation) {
  std::unique_ptr<Graph> &made = graphs[static_cast<std::size_t>(operation.graph)];
  switch (operation.kind) {
  case OperationKind::GraphEnd:
    made = std::make_unique<Graph>(handles, order.allGraphs().at(operation.graph));
    return made->build();
  case OperationKind::GraphUpdate:
    return made->update(operation.node, operation.value);
  case OperationKind::GraphDestroy:
    return made->destroy();
  default:
    return made->launch(streamOf(operation));
  }
}

} // namespace

Outcome execute(const Program &program, Workers &workers, const ExecuteOptions &options) {
  return Execution(program, options).run(workers);
}

Workers::Workers() {
  for (int i = 0; i < maxThreads; ++i)
    threads.emplace_back([this, i] { loop(i); });
}

Workers::~Workers() {
  {
    std::unique_lock lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  for (std::thread &each : threads)
    each.join();
}

void Workers::run(int count, const std::function<void(int)> &work) {
  std::unique_lock lock(mutex);
  current = &work;
  wanted = running = count;
  ++generation;
  changed.notify_all();
  changed.wait(lock, [&] { return running == 0; });
}

void Workers::loop(int number) {
  std::unique_lock lock(mutex);
  int seen = 0;
  while (true) {
    changed.wait(lock, [&] { return stopping || generation != seen; });
    if (stopping)
      return;
    seen = generation;
    if (number >= wanted)
      continue;
    lock.unlock();
    (*current)(number);
    lock.lock();
    --running;
    changed.notify_all();
  }
}

} // namespace tally::programs
