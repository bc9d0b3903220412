// Finds the programs that have one answer under CUDA's rules, and so must have the same answer
// under Tally.
//
// Operations are admitted one after another. Each operation has the set of operations that are over
// before it starts, in every timing: by the order of its stream, events, the legacy default stream
// (CUDA Runtime API, "Stream synchronization behavior"), and the waits of its thread. An operation
// is refused if it uses a buffer whose last writer (or, to write, a reader) is not in that set, or
// a handle about whose state another thread decides at the same time. Any subset of a program that
// is admitted has one answer again, so a program can be reduced by leaving out operations.
#ifndef TALLY_TEST_HOOKS_STREAM_PROGRAMS_ORDER_H
#define TALLY_TEST_HOOKS_STREAM_PROGRAMS_ORDER_H

#include "program.h"

#include <array>
#include <bitset>
#include <map>
#include <vector>

namespace tally::programs {

inline std::size_t index(int value) { return static_cast<std::size_t>(value); }

using OperationSet = std::bitset<maxOperations>;

struct BufferState {
  bool live = false, filled = false;
  Memory memory = Memory::Device;
  std::uint32_t size = 0;
  int allocation = -1;
  int writer = -1;                             ///< the last
  std::vector<int> readers, readersDuringCall; ///< since then
  int graphs = 0;                              ///< that use it
};

struct GraphState {
  bool live = false, open = false, forked = false;
  int owner = -1, stream = -1;
  bool byNodes = false;
  std::vector<Operation> body;
  std::vector<int> reads, writes, launches;
  /// Accesses since the fork, of either branch: conflicts with them are races.
  std::array<std::vector<int>, 2> branchReads, branchWrites;
};

struct StreamState {
  bool live = false, nonBlocking = false;
  int owner = -1; ///< -1: any thread may use it
  std::vector<int> operations;
};

struct EventState {
  int record = -1;
  std::vector<int> users; ///< of that record
};

class Order {
public:
  explicit Order(const Program &program);

  /// Takes the operation as the program's next one. Returns false, without a change, where the
  /// operation is not admitted.
  bool admit(const Operation &operation);

  // Queries for a generator.
  const std::map<int, BufferState> &allBuffers() const { return buffers; }
  const std::map<int, StreamState> &allStreams() const { return streams; }
  const std::map<int, GraphState> &allGraphs() const { return graphs; }
  const EventState &eventOf(int event) const { return events[static_cast<std::size_t>(event)]; }
  /// Operations that are over before the thread's next operation on the stream.
  OperationSet before(int thread, int stream, bool isAllocation = false) const;
  /// Accesses of the buffer that are not in the set, and that a write (or a read) must come behind.
  std::vector<int> unordered(int buffer, bool toWrite, const OperationSet &ahead) const;
  const Operation &at(int index) const { return admitted[static_cast<std::size_t>(index)]; }
  int count() const { return static_cast<int>(admitted.size()); }
  bool isCompleted(int thread, int index) const {
    return completed[static_cast<std::size_t>(thread)][static_cast<std::size_t>(index)];
  }
  /// For queries: whether the queried operations are over by then, in every timing.
  bool isSettled(int index) const { return settled[static_cast<std::size_t>(index)]; }
  /// The graph that the thread is building; -1: none.
  int openGraph(int thread) const;

private:
  bool check(const Operation &operation);
  bool checkCreateStream(const Operation &operation);
  bool checkDestroyStream(const Operation &operation);
  bool checkMemory(const Operation &operation);
  bool checkWork(const Operation &operation);
  bool checkCopy(const Operation &operation);
  bool checkEvent(const Operation &operation);
  bool checkHost(const Operation &operation);
  bool checkThreads(const Operation &operation);
  bool checkGraph(const Operation &operation);
  bool checkGraphLaunch(const Operation &operation);
  bool checkBody(const Operation &operation);
  bool mayUse(const Operation &operation) const;
  bool isAwaited(int thread, int operation) const;
  /// The union of the sets that the stream's next operation comes behind.
  template <class Awaited>
  OperationSet allAhead(int thread, int stream, bool isAllocation,
                        const std::vector<OperationSet> &sets, const Awaited &isAwaited) const;
  bool callsHost(const Operation &operation) const;
  bool isReady(int buffer) const;
  bool canRead(int buffer, const OperationSet &ahead) const;
  bool canWrite(int buffer, const OperationSet &ahead) const;
  void noteRead(int buffer) { buffers[buffer].readers.push_back(count()); }
  void noteWrite(int buffer);
  /// Puts the operation on its stream's timeline behind `ahead`.
  void put(const Operation &operation, OperationSet ahead);
  void complete(int thread) { completed[static_cast<std::size_t>(thread)] |= closures.back(); }

  std::vector<Operation> admitted;
  /// By operation: the operations that are over before it ends, itself included.
  std::vector<OperationSet> closures;
  /// Likewise: the operations that it may wait for, by any rule.
  std::vector<OperationSet> possible;
  std::array<OperationSet, maxThreads> issued, completed;
  std::map<int, BufferState> buffers;
  std::map<int, StreamState> streams;
  std::map<int, GraphState> graphs;
  std::vector<EventState> events;
  std::map<int, std::pair<OperationSet, OperationSet>> signals; ///< issued and completed
  int threads;
  bool hasCaptures = false, hasWaitedForDevice = false;
  OperationSet settled, actions, hostFunctions;
  OperationSet ahead, mayBeAhead; ///< operations ahead of the current operation
};

/// Returns whether the operation also reads its buffer `to`; only complete overwriting does not.
bool overwrites(OperationKind kind);

} // namespace tally::programs

#endif
