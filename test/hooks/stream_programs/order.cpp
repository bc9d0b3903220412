#include "order.h"

#include <algorithm>

namespace tally::programs {

namespace {

bool isBlocking(int stream, const StreamState &state) {
  return stream != legacyStream && !state.nonBlocking;
}

} // namespace

namespace {

/// Operations by which the legacy stream and blocking streams wait for each other: an allocation in
/// stream order or a record need not put work on a stream.
bool isAction(OperationKind kind) {
  using enum OperationKind;
  return kind != Allocate && kind != Free && kind != RecordEvent;
}

} // namespace

bool overwrites(OperationKind kind) {
  return kind == OperationKind::Fill || kind == OperationKind::FillNow ||
         kind == OperationKind::Copy || kind == OperationKind::CopyNow;
}

Order::Order(const Program &program) : events(index(program.events)), threads(program.threads) {
  for (int stream = legacyStream; stream < firstOfThreads + program.threads; ++stream)
    streams[stream].live = true;
  for (int thread = 0; thread < program.threads; ++thread)
    streams[firstOfThreads + thread].owner = thread;
  buffers[0].live = buffers[0].filled = true;
  buffers[0].memory = Memory::Symbol;
  buffers[0].size = symbolWords;
}

/// Returns whether the legacy stream and blocking streams wait for that operation of each other's.
/// They do not wait for a host function, nor for an operation that may be behind an unfinished host
/// function: until then the waiting stream counts as idle (CUDA Runtime API, cudaLaunchHostFunc;
/// seen on an H200 for each kind of work behind one, also with an event of another stream between
/// them). With several threads, other threads' host functions may be ahead of any operation on the
/// legacy stream.
bool Order::isAwaited(int thread, int operation) const {
  return threads == 1 && actions[index(operation)] &&
         (possible[index(operation)] & hostFunctions & ~completed[index(thread)]).none();
}

OperationSet Order::before(int thread, int stream, bool isAllocation) const {
  return allAhead(thread, stream, isAllocation, closures,
                  [&](int each) { return isAwaited(thread, each); });
}

template <class Awaited>
OperationSet Order::allAhead(int thread, int stream, bool isAllocation,
                             const std::vector<OperationSet> &sets,
                             const Awaited &isAwaited) const {
  OperationSet set = completed[index(thread)];
  const OperationSet &known = issued[index(thread)];
  auto add = [&](const StreamState &state, bool isOwn) {
    for (int each : state.operations)
      if (known[index(each)] && (isOwn || isAwaited(each)))
        set |= sets[index(each)];
  };
  auto found = streams.find(stream);
  if (found == streams.end())
    return set;
  add(found->second, true);
  if (isAllocation)
    return set;
  if (stream == legacyStream) {
    for (const auto &[number, other] : streams)
      if (isBlocking(number, other))
        add(other, false);
  } else if (isBlocking(stream, found->second)) {
    add(streams.at(legacyStream), false);
  }
  return set;
}

std::vector<int> Order::unordered(int buffer, bool toWrite, const OperationSet &set) const {
  std::vector<int> missing;
  const BufferState &state = buffers.at(buffer);
  if (state.writer >= 0 && !set[index(state.writer)])
    missing.push_back(state.writer);
  if (toWrite)
    for (int each : state.readers)
      if (!set[index(each)])
        missing.push_back(each);
  return missing;
}

int Order::openGraph(int thread) const {
  for (const auto &[number, graph] : graphs)
    if (graph.open && graph.owner == thread)
      return number;
  return -1;
}

bool Order::isReady(int buffer) const {
  auto found = buffers.find(buffer);
  return found != buffers.end() && found->second.live;
}
bool Order::canRead(int buffer, const OperationSet &set) const {
  return isReady(buffer) && buffers.at(buffer).filled && unordered(buffer, false, set).empty();
}
bool Order::canWrite(int buffer, const OperationSet &set) const {
  return isReady(buffer) && unordered(buffer, true, set).empty();
}

void Order::noteWrite(int buffer) {
  BufferState &state = buffers[buffer];
  state.writer = count();
  state.readers.clear();
  state.readersDuringCall.clear();
}

void Order::put(const Operation &operation, OperationSet set) {
  set.set(index(count()));
  if (operation.kind != OperationKind::WaitEvent)
    actions[index(count())] = isAction(operation.kind);
  hostFunctions[index(count())] = callsHost(operation);
  closures.push_back(set);
  possible.push_back(set | mayBeAhead);
  if (operation.stream >= 0)
    streams[operation.stream].operations.push_back(count());
}

bool Order::mayUse(const Operation &operation) const {
  auto found = streams.find(operation.stream);
  return found != streams.end() && found->second.live &&
         (found->second.owner == -1 || found->second.owner == operation.thread);
}

bool Order::admit(const Operation &operation) {
  if (operation.thread < 0 || operation.thread >= threads || count() == maxOperations)
    return false;
  int open = openGraph(operation.thread);
  if (open >= 0 && operation.graph != open)
    return false;
  bool isAllocation =
      operation.kind == OperationKind::Allocate || operation.kind == OperationKind::Free;
  ahead = mayBeAhead = completed[index(operation.thread)];
  if (operation.stream >= 0) {
    ahead = before(operation.thread, operation.stream, isAllocation);
    mayBeAhead = allAhead(operation.thread, operation.stream, isAllocation, possible,
                          [&](int each) { return actions[index(each)]; });
  }
  std::size_t known = closures.size();
  if (!check(operation))
    return false;
  // An operation that is no work on a stream is over when its call returns.
  if (closures.size() == known) {
    OperationSet own = completed[index(operation.thread)];
    own.set(index(count()));
    closures.push_back(own);
    possible.push_back(own);
    completed[index(operation.thread)].set(index(count()));
  }
  issued[index(operation.thread)].set(index(count()));
  admitted.push_back(operation);
  return true;
}

bool Order::check(const Operation &operation) {
  using enum OperationKind;
  if (int open = openGraph(operation.thread); open >= 0 && operation.kind != GraphEnd)
    return checkBody(operation);
  switch (operation.kind) {
  case CreateStream:
    return checkCreateStream(operation);
  case DestroyStream:
    return checkDestroyStream(operation);
  case Allocate:
  case Free:
    return checkMemory(operation);
  case Launch:
  case Fill:
  case FillNow:
  case HostFunction:
    return checkWork(operation);
  case BadLaunch:
    return mayUse(operation);
  case BadCall:
    return operation.stream < 0 || mayUse(operation);
  case Copy:
  case CopyNow:
    return checkCopy(operation);
  case RecordEvent:
  case WaitEvent:
  case SynchronizeEvent:
  case QueryEvent:
  case PollEvent:
  case RenewEvent:
    return checkEvent(operation);
  case SynchronizeStream:
  case QueryStream:
  case PollStream:
    if (!mayUse(operation))
      return false;
    // For the legacy stream, only its own operations count: it need not wait for other streams'
    // operations.
    settled[index(count())] = true;
    for (int each : streams[operation.stream].operations)
      if (operation.kind == QueryStream)
        settled[index(count())] =
            settled[index(count())] && completed[index(operation.thread)][index(each)];
      else if (issued[index(operation.thread)][index(each)])
        completed[index(operation.thread)] |= closures[index(each)];
    // Other threads may have put work on the legacy stream, or on a stream that it waits for; and
    // CUDA does not define whether a stream that waits for the legacy stream is busy.
    if (operation.kind == QueryStream &&
        (operation.stream == legacyStream || threads > 1 ||
         (isBlocking(operation.stream, streams[operation.stream]) &&
          std::any_of(streams[legacyStream].operations.begin(),
                      streams[legacyStream].operations.end(),
                      [&](int each) { return !completed[index(operation.thread)][index(each)]; }))))
      settled[index(count())] = false;
    return true;
  case SynchronizeDevice:
    // A thread must not wait for a device while one of the device's streams is captured.
    if (threads > 1 && hasCaptures)
      return false;
    hasWaitedForDevice = true;
    for (int each = 0; each < count(); ++each)
      if (issued[index(operation.thread)][index(each)])
        completed[index(operation.thread)] |= closures[index(each)];
    return true;
  case HostWrite:
  case HostRead:
    return checkHost(operation);
  case Signal:
  case Await:
    return checkThreads(operation);
  case GraphBegin:
  case GraphEnd:
  case GraphUpdate:
  case GraphDestroy:
    return checkGraph(operation);
  case GraphLaunch:
    return checkGraphLaunch(operation);
  }
  return false;
}

bool Order::checkCreateStream(const Operation &operation) {
  if (operation.stream < firstCreated || streams.contains(operation.stream))
    return false;
  StreamState &made = streams[operation.stream];
  made.live = true;
  made.owner = operation.thread;
  made.nonBlocking = (operation.value & 1) != 0;
  // A new stream has no work; its creation is no work either.
  Operation call = operation;
  call.stream = -1;
  put(call, completed[index(operation.thread)]);
  complete(operation.thread);
  return true;
}

bool Order::checkDestroyStream(const Operation &operation) {
  if (operation.stream < firstCreated || !mayUse(operation))
    return false;
  streams[operation.stream].live = false;
  Operation call = operation;
  call.stream = -1;
  put(call, completed[index(operation.thread)]);
  complete(operation.thread);
  return true;
}

bool Order::checkMemory(const Operation &operation) {
  using enum OperationKind;
  bool isNew = operation.kind == Allocate;
  bool onStream = operation.memory == Memory::Ordered;
  if (operation.to <= 0 || onStream != (operation.stream >= 0) || (onStream && !mayUse(operation)))
    return false;
  if (isNew) {
    if (buffers.contains(operation.to) || operation.memory == Memory::Symbol || operation.size == 0)
      return false;
    BufferState &made = buffers[operation.to];
    made.live = true;
    made.memory = operation.memory;
    made.size = operation.size;
    made.filled = isOnHost(operation.memory);
    made.allocation = count();
  } else {
    if (!canWrite(operation.to, ahead))
      return false;
    BufferState &old = buffers[operation.to];
    for (int each : old.readersDuringCall)
      if (!issued[index(operation.thread)][index(each)])
        return false;
    if (old.memory != operation.memory || old.graphs != 0)
      return false;
    old.live = false;
  }
  noteWrite(operation.to);
  put(operation, ahead);
  if (!onStream)
    complete(operation.thread);
  return true;
}

/// A fill on the legacy stream that the call does not wait for, a launch, or a host function.
bool Order::checkWork(const Operation &operation) {
  using enum OperationKind;
  if (!mayUse(operation) || !canWrite(operation.to, ahead))
    return false;
  BufferState &target = buffers[operation.to];
  bool onHost = isOnHost(target.memory);
  if (onHost != (operation.kind == HostFunction) || target.memory == Memory::Pageable)
    return false;
  if (operation.kind == FillNow && operation.stream != legacyStream)
    return false;
  if (!overwrites(operation.kind) && !target.filled)
    return false;
  if (operation.kind == Launch)
    for (int source : {operation.from, operation.also})
      if (source >= 0 && (source == operation.to || !canRead(source, ahead) ||
                          buffers[source].memory == Memory::Pageable))
        return false;
  target.filled = true;
  noteWrite(operation.to);
  if (operation.kind == Launch)
    for (int source : {operation.from, operation.also})
      if (source >= 0)
        noteRead(source);
  put(operation, ahead);
  return true;
}

bool Order::checkCopy(const Operation &operation) {
  if (!mayUse(operation) || operation.to == operation.from || !canWrite(operation.to, ahead) ||
      !canRead(operation.from, ahead))
    return false;
  bool now = operation.kind == OperationKind::CopyNow;
  if (now && operation.stream != legacyStream)
    return false;
  BufferState &to = buffers[operation.to], &from = buffers[operation.from];
  if ((isOnHost(to.memory) && isOnHost(from.memory)) || (!to.filled && from.size < to.size))
    return false;
  for (int each : to.readersDuringCall)
    if (!issued[index(operation.thread)][index(each)])
      return false;
  // Pageable memory is read and written during the call (CUDA Runtime API, "API synchronization
  // behavior").
  bool duringCall = from.memory == Memory::Pageable;
  if (duringCall && !unordered(operation.from, false, completed[index(operation.thread)]).empty())
    return false;
  to.filled = true;
  noteWrite(operation.to);
  if (duringCall)
    from.readersDuringCall.push_back(count());
  else
    noteRead(operation.from);
  put(operation, ahead);
  if (to.memory == Memory::Pageable || (now && isOnHost(to.memory)))
    complete(operation.thread);
  return true;
}

bool Order::checkEvent(const Operation &operation) {
  using enum OperationKind;
  if (operation.event < 0 || operation.event >= static_cast<int>(events.size()))
    return false;
  EventState &event = events[index(operation.event)];
  const OperationSet &known = issued[index(operation.thread)];
  bool isOwner = operation.event % threads == operation.thread;
  if (operation.kind == RecordEvent || operation.kind == RenewEvent) {
    if (!isOwner || !std::all_of(event.users.begin(), event.users.end(),
                                 [&](int each) { return known[index(each)]; }))
      return false;
    if (operation.kind == RecordEvent && !mayUse(operation))
      return false;
    event.users.clear();
    event.record = -1;
    if (operation.kind == RenewEvent)
      return true;
    event.record = count();
    put(operation, ahead);
    return true;
  }
  if (event.record < 0 ? !isOwner : !known[index(event.record)])
    return false;
  OperationSet recorded;
  if (event.record >= 0)
    recorded = closures[index(event.record)];
  if (event.record >= 0)
    mayBeAhead |= possible[index(event.record)];
  if (operation.kind == WaitEvent) {
    if (!mayUse(operation))
      return false;
    // Without a record there is no work to wait for, and the wait need not put work on the stream:
    // then it does not come behind the legacy stream either.
    actions[index(count())] = event.record >= 0;
    if (event.record < 0)
      ahead = before(operation.thread, operation.stream, true);
    put(operation, ahead | recorded);
  } else if (operation.kind == QueryEvent) {
    settled[index(count())] = (recorded & ~completed[index(operation.thread)]).none();
  } else {
    completed[index(operation.thread)] |= recorded;
  }
  event.users.push_back(count());
  return true;
}

bool Order::checkHost(const Operation &operation) {
  bool writes = operation.kind == OperationKind::HostWrite;
  if (!isReady(operation.to) || !isOnHost(buffers[operation.to].memory) ||
      !(writes ? canWrite(operation.to, ahead) : canRead(operation.to, ahead)))
    return false;
  BufferState &buffer = buffers[operation.to];
  for (int each : buffer.readersDuringCall)
    if (writes && !issued[index(operation.thread)][index(each)])
      return false;
  if (writes)
    noteWrite(operation.to);
  else
    noteRead(operation.to);
  return true;
}

bool Order::checkThreads(const Operation &operation) {
  auto known = signals.find(operation.token);
  bool sends = operation.kind == OperationKind::Signal;
  if (operation.token < 0 || sends == (known != signals.end()))
    return false;
  if (sends) {
    signals[operation.token] = {issued[index(operation.thread)],
                                completed[index(operation.thread)]};
    return true;
  }
  issued[index(operation.thread)] |= known->second.first;
  completed[index(operation.thread)] |= known->second.second;
  return true;
}

} // namespace tally::programs
