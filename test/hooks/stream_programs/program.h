// A program of stream operations: the calls of each host thread, in order, with their streams and
// buffers. Plain data; order.h tells which programs have one answer in CUDA.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_PROGRAM_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_PROGRAM_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::programs {

inline constexpr int maxThreads = 4, maxOperations = 512;

/// Streams by number: the legacy default stream, each thread's default stream, and the streams that
/// the program creates.
inline constexpr int legacyStream = 0, firstOfThreads = 1,
                     firstCreated = firstOfThreads + maxThreads;

/// Words of 32 bits in the variable of Memory::Symbol.
inline constexpr std::uint32_t symbolWords = 512;

enum class Memory : std::uint8_t {
  Device,  ///< cudaMalloc
  Ordered, ///< cudaMallocAsync
  Pinned,
  Pageable,
  Symbol ///< a `__device__` variable; buffer 0 is the only one, and exists from the start
};
inline bool isOnHost(Memory memory) {
  return memory == Memory::Pinned || memory == Memory::Pageable;
}

// The kinds of operations and their fields. `stream`, `to`, ... are fields of Operation.
#define TALLY_OPERATION_KINDS(X)                                                                   \
  X(CreateStream)  /* value: 1 non-blocking; level: its priority in steps below the highest */     \
  X(DestroyStream) /* with work on it or not */                                                    \
  X(Allocate)      /* buffer `to` of `size` words in `memory`; Ordered: on `stream` */             \
  X(Free)          /* Ordered: on `stream` */                                                      \
  X(Launch)        /* `kernel` writes `to`, reads `from` and `also` */                             \
  X(BadLaunch)     /* a configuration that cannot run; value: which */                             \
  X(BadCall)       /* a call with wrong arguments; value: which */                                 \
  X(Fill)          /* cudaMemsetAsync by the low byte of value */                                  \
  X(FillNow)       /* cudaMemset */                                                                \
  X(Copy)          /* cudaMemcpyAsync, to and from symbols their own call */                       \
  X(CopyNow)       /* cudaMemcpy */                                                                \
  X(HostFunction)  /* cudaLaunchHostFunc that changes the pinned buffer `to` */                    \
  X(RecordEvent)                                                                                   \
  X(WaitEvent) /* cudaStreamWaitEvent */                                                           \
  X(SynchronizeEvent)                                                                              \
  X(QueryEvent)                                                                                    \
  X(PollEvent)  /* queries until it is done */                                                     \
  X(RenewEvent) /* destroys it, recorded or not, and creates another */                            \
  X(SynchronizeStream)                                                                             \
  X(QueryStream)                                                                                   \
  X(PollStream)                                                                                    \
  X(SynchronizeDevice)                                                                             \
  X(HostWrite) /* the thread itself changes a host buffer */                                       \
  X(HostRead)  /* the thread logs the contents of a host buffer */                                 \
  X(Signal)    /* lets the thread go that awaits `token` */                                        \
  X(Await)                                                                                         \
  X(GraphBegin) /* value: 0 by capture on `stream`, 1 by nodes. Until GraphEnd the thread's */     \
                /* calls make the graph; `branch` 1: parallel to later calls of branch 0 */        \
  X(GraphEnd)                                                                                      \
  X(GraphLaunch)                                                                                   \
  X(GraphUpdate) /* the launch or fill that is its `node`th gets another `value` */                \
  X(GraphDestroy)

enum class OperationKind : std::uint8_t {
#define TALLY_OPERATION_ENUMERATOR(name) name,
  TALLY_OPERATION_KINDS(TALLY_OPERATION_ENUMERATOR)
#undef TALLY_OPERATION_ENUMERATOR
};

struct Operation {
  OperationKind kind{};
  int thread = 0, stream = -1, to = -1, from = -1, also = -1, event = -1, graph = -1, token = -1;
  int kernel = -1, branch = 0, node = -1, level = 0;
  Memory memory = Memory::Device;
  std::uint32_t value = 0, size = 0, rounds = 0;
};

struct Program {
  int threads = 1, events = 0;
  std::vector<Operation> operations; ///< each thread makes its own operations, in this order
};

/// Returns one line: the kind's name and the fields that are set.
std::string print(const Operation &operation);
/// Returns one line for the threads and events, and one for each operation. parse() reads the text.
std::string print(const Program &program);
/// Returns nothing where the text is no program.
std::optional<Program> parse(std::string_view text);

} // namespace tally::programs

#endif
