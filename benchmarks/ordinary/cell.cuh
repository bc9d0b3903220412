// The steps of an ordinary program, of several kinds. Each part of a step reads the results of the
// part before, and computes integers. So another order, a part left out or a part made twice gives
// another digest, and the same steps give the same digest on any device. Plain CUDA.
#ifndef TALLY_BENCHMARKS_ORDINARY_CELL_CUH
#define TALLY_BENCHMARKS_ORDINARY_CELL_CUH

#include "training.cuh"

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace ordinary {

using namespace colocation;

/// The kernels of a step.
enum class Form { TwoKernels, OneKernel, TwoStreams, Graph };
/// The call between a step's two kernels.
enum class Between { Nothing, Copy, PageableIn, PageableOut, PinnedIn, PinnedOut, HostFunction };
/// The unit that a kind's duration refers to.
enum class Length { Step, Kernel, Block };

struct Kind {
  const char *name;
  Form form = Form::TwoKernels;
  Between between = Between::Nothing;
  bool records = false; ///< an event, at the step's end
  Length length = Length::Step;
};

constexpr std::array kinds = {
    Kind{"none"},
    Kind{"copy", Form::TwoKernels, Between::Copy},
    Kind{"event", Form::TwoKernels, Between::Nothing, true},
    Kind{"both", Form::TwoKernels, Between::Copy, true},
    Kind{"long", Form::OneKernel, Between::Nothing, false, Length::Block},
    Kind{"pageable-in", Form::TwoKernels, Between::PageableIn},
    Kind{"pageable-out", Form::TwoKernels, Between::PageableOut},
    Kind{"pinned-in", Form::TwoKernels, Between::PinnedIn},
    Kind{"pinned-out", Form::TwoKernels, Between::PinnedOut},
    Kind{"host-function", Form::TwoKernels, Between::HostFunction},
    Kind{"two-streams", Form::TwoStreams},
    Kind{"graph", Form::Graph, Between::Nothing, false, Length::Kernel},
    Kind{"chain", Form::TwoKernels, Between::Nothing, false, Length::Kernel},
};

/// Ends the program if no kind has that name.
inline const Kind &kindOf(const std::string &name) {
  for (const Kind &each : kinds)
    if (each.name == name)
      return each;
  std::fprintf(stderr, "ordinary: %s is no kind of step\n", name.c_str());
  std::exit(2);
}

/// Counts steps: `made` in the device's memory, `seen` in the host's.
struct Progress {
  unsigned *made;
  volatile unsigned *seen;
};

static __global__ void fill(unsigned *values, unsigned seed) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[i] = (i + seed) * 2654435761u;
}

/// A chain of dependent integer operations on each element, which starts from an element that
/// another block wrote. The first `inputs` elements also add a part of `input`. With
/// `progress.made` the kernel counts itself.
static __global__ void mix(const unsigned *from, unsigned *to, const unsigned *input,
                           unsigned inputs, int rounds, Progress progress) {
  unsigned count = gridDim.x * blockDim.x;
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = i + count / 2 + 1;
  unsigned x = from[other < count ? other : other - count];
  if (i < inputs)
    x += input[i];
  for (int r = 0; r < rounds; ++r)
    x = (x ^ (x >> 15)) * 747796405u + 2891336453u;
  to[i] = x + from[i];
  if (i == 0 && progress.made)
    *progress.seen = ++*progress.made;
}

/// Blocks of a kernel and turns of its loop.
struct Shape {
  unsigned blocks = 0;
  int rounds = 0;
};

/// Shape of the kind's kernels for which a kernel in a row of kernels takes the kind's duration.
inline Shape calibrated(const Kind &kind, double microseconds) {
  double target = kind.length == Length::Step ? microseconds / 2 : microseconds, waves = 2;
  if (kind.length == Length::Block)
    target *= waves;
  else
    waves = std::clamp(std::round(target / 5), 1.0, 32.0);
  Shape shape;
  shape.blocks = static_cast<unsigned>(waves) * residentBlocks(reinterpret_cast<const void *>(mix));
  Buffer<unsigned> first(std::size_t{shape.blocks} * threads), second(first.size());
  cudaStream_t stream = makeStream(priorities().low);
  auto kernels = static_cast<unsigned>(std::clamp(20000 / target, 4.0, 400.0));
  auto time = [&](double rounds) {
    double best = 1e30;
    for (int repetition = 0; repetition < 6; ++repetition) {
      auto begin = Clock::now();
      for (unsigned i = 0; i < kernels; ++i)
        mix<<<shape.blocks, threads, 0, stream>>>(i % 2 ? first.data() : second.data(),
                                                  i % 2 ? second.data() : first.data(), nullptr, 0,
                                                  static_cast<int>(rounds), Progress{});
      check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
      best = std::min(best, Microseconds(Clock::now() - begin).count() / kernels);
    }
    return best;
  };
  // Between two lengths a kernel's time is linear.
  double few = 200 / waves, many = 2000 / waves;
  double slope = (time(many) - time(few)) / (many - few), rounds = many;
  for (int i = 0; i < 3; ++i)
    rounds = std::max(1.0, rounds + (target - time(rounds)) / slope);
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  shape.rounds = static_cast<int>(rounds);
  return shape;
}

/// Memory of the host that the device can access.
class Pinned {
public:
  explicit Pinned(std::size_t count) {
    check(cudaMallocHost(&memory, count * sizeof(unsigned)), "cudaMallocHost");
    std::memset(memory, 0, count * sizeof(unsigned));
  }
  Pinned(const Pinned &) = delete;
  Pinned &operator=(const Pinned &) = delete;
  ~Pinned() { static_cast<void>(cudaFreeHost(memory)); }
  unsigned *data() const { return memory; }

private:
  unsigned *memory = nullptr;
};

/// The calls that a step makes.
enum class Call { Launch, Copy, Record, Wait, HostFunction, Graph };
constexpr std::array callNames = {"launch", "copy", "record", "wait", "host_function", "graph"};

struct JustCall {
  template <class Function> void operator()(Call, Function call) const { call(); }
};

/// Steps of one kind on a stream of the lowest priority; only one thread at a time may use the
/// object.
class Cell {
public:
  Cell(const Kind &kind, const Shape &shape)
      : kind(kind), shape(shape), count(shape.blocks * threads), inputs(inputsOf(kind, count)) {
    for (cudaStream_t *each : {&stream, &second})
      *each = makeStream(priorities().low);
    for (cudaEvent_t *each : {&forked, &joined, &recorded})
      check(cudaEventCreate(each), "cudaEventCreate");
    if (kind.form == Form::Graph)
      capture();
  }
  Cell(const Cell &) = delete;
  Cell &operator=(const Cell &) = delete;
  ~Cell() {
    static_cast<void>(cudaDeviceSynchronize());
    if (graph)
      static_cast<void>(cudaGraphExecDestroy(graph));
    for (cudaEvent_t each : {forked, joined, recorded})
      static_cast<void>(cudaEventDestroy(each));
    for (cudaStream_t each : {stream, second})
      static_cast<void>(cudaStreamDestroy(each));
  }

  /// Goes back to the state before the first step.
  void reset() {
    synchronise();
    unsigned seed = 0;
    for (unsigned *each : {a.data(), b.data(), c.data(), d.data()})
      fill<<<shape.blocks, threads, 0, stream>>>(each, ++seed);
    check(cudaMemsetAsync(input.data(), 0, input.size() * sizeof(unsigned), stream),
          "cudaMemsetAsync");
    check(cudaMemsetAsync(made.data(), 0, sizeof(unsigned), stream), "cudaMemsetAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    counter() = steps = functionCalls = 0;
    for (unsigned i = 0; i < slots * inputs; ++i)
      pageable[i] = pinned.data()[i] = i * 2246822519u;
  }

  /// Puts a step on the stream. `call(Call, function)` makes each of its calls.
  template <class MakeCall> void step(MakeCall call) {
    unsigned *x = steps % 2 ? b.data() : a.data(), *y = steps % 2 ? a.data() : b.data();
    unsigned *slot = host() + steps % slots * inputs;
    Progress progress{made.data(), &counter()};
    switch (kind.form) {
    case Form::OneKernel:
      call(Call::Launch, [&] { launch(x, y, progress); });
      break;
    case Form::Graph:
      call(Call::Graph, [&] { check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch"); });
      break;
    case Form::TwoStreams:
      twoStreams(call, progress);
      break;
    case Form::TwoKernels:
      call(Call::Launch, [&] { launch(a.data(), b.data(), {}); });
      between(call, slot);
      const unsigned *from = kind.between == Between::Copy ? c.data() : b.data();
      call(Call::Launch, [&] { launch(from, a.data(), progress); });
    }
    if (kind.records)
      call(Call::Record, [&] { check(cudaEventRecord(recorded, stream), "cudaEventRecord"); });
    check(cudaGetLastError(), "launch");
    ++steps;
  }

  /// Waits for all steps.
  void synchronise() {
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaStreamSynchronize(second), "cudaStreamSynchronize");
  }

  /// Puts a kernel on the other stream whose result shows whether the last event waits for the last
  /// step.
  void witness() {
    if (!kind.records)
      return;
    check(cudaStreamWaitEvent(second, recorded, 0), "cudaStreamWaitEvent");
    check(cudaMemcpyAsync(d.data(), a.data(), count * sizeof(unsigned), cudaMemcpyDeviceToDevice,
                          second),
          "cudaMemcpyAsync");
  }

  /// Number of steps that the device has begun to end.
  unsigned seen() { return counter(); }

  /// Digest of all results of the steps.
  std::uint64_t digest() {
    synchronise();
    std::uint64_t hash = 0xcbf29ce484222325u;
    auto add = [&hash](const unsigned *values, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i)
        hash = (hash ^ values[i]) * 0x100000001b3u;
    };
    for (const Buffer<unsigned> *each : {&a, &b, &c, &d, &made})
      add(each->read().data(), each->size());
    add(host(), slots * inputs);
    add(&functionCalls, 1);
    return hash;
  }

private:
  static constexpr unsigned slots = 16, mostInputs = 65536, graphKernels = 20;

  static unsigned inputsOf(const Kind &kind, unsigned count) {
    return kind.between == Between::Nothing || kind.between == Between::Copy ? 0
           : kind.between == Between::HostFunction ? 64
                                                   : std::min(count, mostInputs);
  }
  unsigned *host() {
    bool isPageable = kind.between == Between::PageableIn || kind.between == Between::PageableOut;
    return isPageable ? pageable.data() : pinned.data();
  }
  volatile unsigned &counter() { return *seenByHost.data(); }

  void launch(const unsigned *from, unsigned *to, Progress progress, cudaStream_t on = nullptr) {
    const unsigned *taken = kind.between == Between::HostFunction ? pinned.data() : input.data();
    // Only the step's last kernel comes behind the call between the kernels.
    mix<<<shape.blocks, threads, 0, on ? on : stream>>>(from, to, taken, progress.made ? inputs : 0,
                                                        shape.rounds, progress);
  }

  template <class MakeCall> void between(MakeCall call, unsigned *slot) {
    std::size_t bytes = inputs * sizeof(unsigned);
    auto copy = [&](void *to, const void *from, std::size_t size, cudaMemcpyKind direction) {
      call(Call::Copy,
           [&] { check(cudaMemcpyAsync(to, from, size, direction, stream), "cudaMemcpyAsync"); });
    };
    switch (kind.between) {
    case Between::Nothing:
      break;
    case Between::Copy:
      copy(c.data(), b.data(), count * sizeof(unsigned), cudaMemcpyDeviceToDevice);
      break;
    case Between::PageableIn:
      copy(input.data(), slot, bytes, cudaMemcpyHostToDevice);
      // The copy has read the memory when the call returns.
      for (unsigned i = 0; i < inputs; i += inputs / 16)
        slot[i] = slot[i] * 3266489917u + steps;
      break;
    case Between::PinnedIn:
      copy(input.data(), slot, bytes, cudaMemcpyHostToDevice);
      break;
    case Between::PageableOut:
    case Between::PinnedOut:
      copy(slot, b.data(), bytes, cudaMemcpyDeviceToHost);
      break;
    case Between::HostFunction:
      call(Call::HostFunction,
           [&] { check(cudaLaunchHostFunc(stream, hostFunction, this), "cudaLaunchHostFunc"); });
    }
  }

  /// Writes the input of the step's second kernel.
  static void CUDART_CB hostFunction(void *cell) {
    auto *self = static_cast<Cell *>(cell);
    ++self->functionCalls;
    for (unsigned i = 0; i < self->inputs; ++i)
      self->pinned.data()[i] += self->functionCalls * 668265263u + i;
  }

  /// One kernel on each stream; each reads the other kernel's results from the step before.
  template <class MakeCall> void twoStreams(MakeCall call, Progress progress) {
    bool odd = steps % 2;
    auto order = [&](cudaEvent_t event, cudaStream_t before, cudaStream_t after) {
      call(Call::Record, [&] { check(cudaEventRecord(event, before), "cudaEventRecord"); });
      call(Call::Wait, [&] { check(cudaStreamWaitEvent(after, event, 0), "cudaStreamWaitEvent"); });
    };
    order(forked, stream, second);
    call(Call::Launch,
         [&] { launch(odd ? d.data() : c.data(), odd ? a.data() : b.data(), progress); });
    call(Call::Launch,
         [&] { launch(odd ? b.data() : a.data(), odd ? c.data() : d.data(), {}, second); });
    order(joined, second, stream);
  }

  void capture() {
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
    for (unsigned i = 0; i < graphKernels; ++i) {
      bool odd = i % 2;
      Progress progress = i + 1 < graphKernels ? Progress{} : Progress{made.data(), &counter()};
      launch(odd ? b.data() : a.data(), odd ? a.data() : b.data(), progress);
    }
    check(cudaStreamEndCapture(stream, &captured), "end capture");
    check(cudaGraphInstantiate(&graph, captured, 0), "cudaGraphInstantiate");
    check(cudaGraphDestroy(captured), "cudaGraphDestroy");
  }

  const Kind &kind;
  Shape shape;
  unsigned count, inputs;
  Buffer<unsigned> a{count}, b{count}, c{count}, d{count}, input{std::max(inputs, 1u)}, made{1};
  Pinned seenByHost{1}, pinned{std::max(slots * inputs, 1u)};
  std::vector<unsigned> pageable = std::vector<unsigned>(slots * inputs);
  cudaStream_t stream = nullptr, second = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr, recorded = nullptr;
  cudaGraphExec_t graph = nullptr;
  unsigned steps = 0, functionCalls = 0;
};

} // namespace ordinary

#endif
