#include "generate.h"

#include "kernels.h"
#include "order.h"

#include <algorithm>
#include <random>
#include <set>

namespace tally::programs {

namespace {

using enum OperationKind;

class Generator {
public:
  Generator(std::uint64_t seed, const GeneratorOptions &options)
      : options(options), random(seed * 0x9e3779b97f4a7c15u + 1), program(shape()), order(program) {
  }

  Program run() {
    begin();
    int wanted = options.operations / 2 + static_cast<int>(below(options.operations + 1));
    // A refused proposal is free, but a program must end.
    for (int tries = 0; order.count() < wanted && tries < 40 * wanted; ++tries)
      propose(static_cast<int>(below(program.threads)));
    return program;
  }

private:
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }
  template <class Value> Value pick(const std::vector<Value> &from) {
    return from[below(from.size())];
  }

  Program shape() {
    Program made;
    made.threads = options.threads > 0 ? options.threads
                   : chance(45)        ? 1
                                       : 2 + static_cast<int>(below(maxThreads - 1));
    made.events = made.threads * (2 + static_cast<int>(below(3)));
    return made;
  }

  bool emit(const Operation &operation) {
    if (!order.admit(operation))
      return false;
    program.operations.push_back(operation);
    return true;
  }
  Operation make(OperationKind kind, int thread, int stream = -1) {
    Operation made;
    made.kind = kind;
    made.thread = thread;
    made.stream = stream;
    return made;
  }
  std::uint32_t value() { return static_cast<std::uint32_t>(random()); }
  std::uint32_t rounds() {
    auto most = options.rounds * (chance(8) ? 10 : 1);
    return 1 + static_cast<std::uint32_t>(below(most));
  }

  void begin() {
    int devices = 3 + static_cast<int>(below(4)), pinned = 2, pageable = 2;
    for (int i = 0; i < devices + pinned + pageable; ++i)
      allocate(0, i < devices            ? Memory::Device
                  : i < devices + pinned ? Memory::Pinned
                                         : Memory::Pageable);
    base = nextBuffer;
    for (int to = 1; to <= devices; ++to) {
      Operation fill = make(chance(50) ? Fill : FillNow, 0, legacyStream);
      fill.to = to;
      fill.value = value();
      emit(fill);
    }
    emit(make(SynchronizeDevice, 0));
    for (int thread = 1; thread < program.threads; ++thread)
      tell(0, thread);
    for (int thread = 0; thread < program.threads; ++thread)
      for (auto left = below(3) + 1; left > 0; --left)
        createStream(thread);
  }

  bool tell(int from, int to) {
    if (from == to)
      return true;
    Operation signal = make(Signal, from), await = make(Await, to);
    signal.token = await.token = nextToken++;
    return emit(signal) && emit(await);
  }

  bool createStream(int thread) {
    Operation create = make(CreateStream, thread, nextStream++);
    create.value = static_cast<std::uint32_t>(below(2));
    create.level = static_cast<int>(below(3));
    return emit(create);
  }

  bool allocate(int thread, Memory memory, int stream = -1) {
    Operation made = make(Allocate, thread, stream);
    made.memory = memory;
    made.to = nextBuffer++;
    const std::vector<std::uint32_t> sizes = {64, 100, 256, symbolWords, options.words};
    made.size = std::min(pick(sizes), options.words);
    return emit(made);
  }

  std::vector<int> streamsOf(int thread) {
    std::vector<int> found;
    for (const auto &[number, state] : order.allStreams())
      if (number >= firstCreated && state.live && state.owner == thread)
        found.push_back(number);
    return found;
  }
  int streamFor(int thread) {
    std::vector<int> created = streamsOf(thread);
    if (created.empty() || chance(15))
      return chance(60) ? legacyStream : firstOfThreads + thread;
    return pick(created);
  }

  template <class Which> std::vector<int> buffersWhere(Which which) {
    std::vector<int> found;
    for (const auto &[number, state] : order.allBuffers())
      if (state.live && which(number, state))
        found.push_back(number);
    return found;
  }
  static bool isOnDevice(const BufferState &state) { return !isOnHost(state.memory); }

  /// Makes the thread's next operation on the stream (-1: the thread itself) come behind an
  /// operation.
  bool waitFor(int thread, int stream, int earlier) {
    const Operation other = order.at(earlier); // a copy, since the loop admits more operations
    bool live = other.stream >= 0 && order.allStreams().contains(other.stream) &&
                order.allStreams().at(other.stream).live;
    if (other.stream < 0)
      return tell(other.thread, thread);
    if (!live || chance(4))
      return emit(make(SynchronizeDevice, other.thread)) && tell(other.thread, thread);
    if (stream >= 0 && chance(85)) {
      Operation record = make(RecordEvent, other.thread, other.stream);
      record.event = eventOf(other.thread);
      if (emit(record)) {
        Operation wait = make(WaitEvent, thread, stream);
        wait.event = record.event;
        return tell(other.thread, thread) && emit(wait);
      }
    }
    OperationKind how = chance(70) ? SynchronizeStream : PollStream;
    return emit(make(how, other.thread, other.stream)) && tell(other.thread, thread);
  }
  int eventOf(int thread) {
    return thread + program.threads * static_cast<int>(below(program.events / program.threads));
  }

  bool bring(int thread, int stream, int buffer, bool toWrite) {
    for (int tries = 0; tries < 4; ++tries) {
      OperationSet ahead = order.before(thread, stream);
      std::vector<int> missing = order.unordered(buffer, toWrite, ahead);
      if (missing.empty())
        return true;
      if (!waitFor(thread, stream, missing.back()))
        return false;
    }
    return false;
  }

  /// Returns a buffer that the stream may use; mostly one that needs no wait.
  int choose(int thread, int stream, bool toWrite, const std::vector<int> &from) {
    if (from.empty())
      return -1;
    std::vector<int> free;
    OperationSet ahead = order.before(thread, stream);
    for (int each : from)
      if (order.unordered(each, toWrite, ahead).empty())
        free.push_back(each);
    if (!free.empty() && chance(60))
      return pick(free);
    int chosen = pick(from);
    return bring(thread, stream, chosen, toWrite) ? chosen : -1;
  }

  std::vector<int> filled(bool onDevice, int but = -1) {
    return buffersWhere([&](int number, const BufferState &state) {
      return number != but && state.filled &&
             (onDevice ? isOnDevice(state) : isOnHost(state.memory));
    });
  }

  bool launch(int thread, int stream) {
    Operation made = make(Launch, thread, stream);
    made.kernel = static_cast<int>(below(kernelCount));
    made.value = value();
    made.rounds = rounds();
    auto id = static_cast<KernelId>(made.kernel);
    made.to = id == KernelId::Table && order.allBuffers().at(0).live
                  ? 0
                  : choose(thread, stream, true, filled(true));
    if (id == KernelId::Table && !bring(thread, stream, 0, true))
      return false;
    int sources = sourcesOf(id);
    std::vector<int> readable = buffersWhere([&](int number, const BufferState &state) {
      return number != made.to && state.filled && state.memory != Memory::Pageable;
    });
    if (sources > 0)
      made.from = choose(thread, stream, false, readable);
    if (sources > 1)
      made.also = choose(thread, stream, false, readable);
    if ((sources > 0 && made.from < 0) || (sources > 1 && made.also < 0) || made.to < 0)
      return false;
    return emit(made);
  }

  bool fill(int thread, int stream) {
    Operation made = make(stream == legacyStream && chance(50) ? FillNow : Fill, thread, stream);
    made.to = choose(thread, stream, true,
                     buffersWhere([](int, const BufferState &state) { return isOnDevice(state); }));
    made.value = value();
    return made.to >= 0 && emit(made);
  }

  bool copy(int thread, int stream) {
    Operation made = make(stream == legacyStream && chance(50) ? CopyNow : Copy, thread, stream);
    bool up = chance(50);
    made.from = choose(thread, stream, false, filled(!up || chance(25)));
    if (made.from < 0)
      return false;
    if (order.allBuffers().at(made.from).memory == Memory::Pageable &&
        !bring(thread, -1, made.from, false))
      return false;
    bool toDevice = isOnHost(order.allBuffers().at(made.from).memory) || chance(40);
    made.to = choose(thread, stream, true, buffersWhere([&](int number, const BufferState &state) {
                       return number != made.from && isOnDevice(state) == toDevice;
                     }));
    return made.to >= 0 && emit(made);
  }

  bool hostFunction(int thread, int stream) {
    Operation made = make(HostFunction, thread, stream);
    made.to = choose(thread, stream, true, buffersWhere([](int, const BufferState &state) {
                       return state.memory == Memory::Pinned;
                     }));
    made.value = value();
    return made.to >= 0 && emit(made);
  }

  bool host(int thread) {
    Operation made = make(chance(50) ? HostWrite : HostRead, thread);
    made.to = choose(thread, -1, made.kind == HostWrite, filled(false));
    made.value = value();
    return made.to >= 0 && emit(made);
  }

  bool event(int thread, int stream) {
    const std::vector<OperationKind> kinds = {RecordEvent,      RecordEvent, WaitEvent, WaitEvent,
                                              SynchronizeEvent, QueryEvent,  PollEvent, RenewEvent};
    Operation made = make(pick(kinds), thread);
    made.event = static_cast<int>(below(program.events));
    if (made.kind == RecordEvent || made.kind == WaitEvent)
      made.stream = stream;
    return emit(made);
  }

  bool memory(int thread, int stream) {
    std::vector<int> mine = buffersWhere(
        [&](int number, const BufferState &state) { return number >= base && state.graphs == 0; });
    if (mine.empty() || chance(50)) {
      const std::vector<Memory> memories = {Memory::Device, Memory::Ordered, Memory::Ordered,
                                            Memory::Pinned};
      Memory chosen = pick(memories);
      return allocate(thread, chosen, chosen == Memory::Ordered ? stream : -1);
    }
    int chosen = pick(mine);
    Operation made = make(Free, thread);
    made.to = chosen;
    made.memory = order.allBuffers().at(chosen).memory;
    made.stream = made.memory == Memory::Ordered ? stream : -1;
    return bring(thread, made.stream, chosen, true) && emit(made);
  }

  bool wait(int thread, int stream) {
    const std::vector<OperationKind> kinds = {SynchronizeStream, SynchronizeStream,
                                              QueryStream,       QueryStream,
                                              PollStream,        SynchronizeDevice};
    OperationKind kind = pick(kinds);
    return emit(make(kind, thread, kind == SynchronizeDevice ? -1 : stream));
  }

  bool bad(int thread, int stream) {
    Operation made = make(chance(50) ? BadLaunch : BadCall, thread, stream);
    made.value = static_cast<std::uint32_t>(below(8));
    return emit(made);
  }

  bool streams(int thread) {
    std::vector<int> mine = streamsOf(thread);
    bool captured = false;
    if (mine.size() < 2 || (chance(50) && mine.size() < 6))
      return createStream(thread);
    int chosen = pick(mine);
    for (const auto &[number, graph] : order.allGraphs())
      captured = captured || (graph.live && graph.stream == chosen);
    return !captured && emit(make(DestroyStream, thread, chosen));
  }

  bool bodyNode(int thread, int graph, int branch) {
    auto plain = [&](bool onHost, int but) {
      return buffersWhere([&](int number, const BufferState &state) {
        return number != but && number != 0 &&
               state.memory == (onHost ? Memory::Pinned : Memory::Device);
      });
    };
    Operation made = make(chance(60)   ? Launch
                          : chance(40) ? Copy
                          : chance(60) ? Fill
                                       : HostFunction,
                          thread);
    made.graph = graph;
    made.branch = branch;
    made.value = value();
    made.rounds = rounds();
    if (made.kind == Copy) {
      bool up = chance(50);
      made.from = pick(plain(up, -1));
      made.to = pick(plain(!up && chance(50), made.from));
      return emit(made);
    }
    made.to = pick(plain(made.kind == HostFunction, -1));
    if (made.kind == Launch) {
      do
        made.kernel = static_cast<int>(below(kernelCount));
      while (static_cast<KernelId>(made.kernel) == KernelId::Table ||
             static_cast<KernelId>(made.kernel) == KernelId::Meet);
      int sources = sourcesOf(static_cast<KernelId>(made.kernel));
      if (sources > 0)
        made.from = pick(plain(false, made.to));
      if (sources > 1)
        made.also = pick(plain(false, made.to));
    }
    return emit(made);
  }

  bool buildGraph(int thread) {
    Operation begin = make(GraphBegin, thread);
    begin.graph = nextGraph;
    begin.value = static_cast<std::uint32_t>(below(2));
    std::vector<int> mine = streamsOf(thread);
    if (begin.value == 0 && mine.empty())
      return false;
    if (begin.value == 0)
      begin.stream = pick(mine);
    if (!emit(begin))
      return false;
    int wanted = 1 + static_cast<int>(below(6)), made = 0;
    for (int tries = 0; tries < 4 * wanted || made == 0; ++tries)
      if (made < wanted)
        made += bodyNode(thread, nextGraph, made > 0 && chance(30));
    Operation end = make(GraphEnd, thread);
    end.graph = nextGraph++;
    return emit(end);
  }

  bool graph(int thread, int stream) {
    std::vector<int> mine;
    for (const auto &[number, state] : order.allGraphs())
      if (state.live && state.owner == thread)
        mine.push_back(number);
    if (mine.empty() || (mine.size() < 3 && chance(20)))
      return buildGraph(thread);
    Operation made = make(GraphLaunch, thread, stream);
    made.graph = pick(mine);
    const GraphState &state = order.allGraphs().at(made.graph);
    if (chance(20)) {
      made.kind = GraphUpdate;
      made.stream = -1;
      made.node = static_cast<int>(below(state.body.size()));
      made.value = value();
      return emit(made);
    }
    if (chance(5)) {
      made.kind = GraphDestroy;
      made.stream = -1;
      for (int each : std::vector<int>(state.launches))
        if (!order.isCompleted(thread, each) && !waitFor(thread, -1, each))
          return false;
      return emit(made);
    }
    for (int buffer : std::set<int>(state.writes.begin(), state.writes.end()))
      if (!bring(thread, stream, buffer, true))
        return false;
    for (int buffer : std::set<int>(state.reads.begin(), state.reads.end()))
      if (!bring(thread, stream, buffer, false))
        return false;
    return emit(made);
  }

  bool propose(int thread) {
    int stream = streamFor(thread);
    std::uint64_t at = below(100);
    auto upTo = [&at](std::uint64_t share) {
      bool within = at < share;
      at -= within ? 0 : share;
      return within;
    };
    if (upTo(36))
      return launch(thread, stream);
    if (upTo(6))
      return fill(thread, stream);
    if (upTo(13))
      return copy(thread, stream);
    if (upTo(5))
      return hostFunction(thread, stream);
    if (upTo(6))
      return host(thread);
    if (upTo(9))
      return event(thread, stream);
    if (upTo(6))
      return memory(thread, stream);
    if (upTo(4))
      return wait(thread, stream);
    if (upTo(3))
      return bad(thread, stream);
    if (upTo(3))
      return streams(thread);
    if (upTo(1))
      return tell(thread, static_cast<int>(below(program.threads)));
    return graph(thread, stream);
  }

  GeneratorOptions options;
  std::mt19937_64 random;
  Program program;
  Order order;
  int nextStream = firstCreated, nextBuffer = 1, nextToken = 0, nextGraph = 0, base = 0;
};

} // namespace

Program generate(std::uint64_t seed, const GeneratorOptions &options) {
  return Generator(seed, options).run();
}

} // namespace tally::programs
