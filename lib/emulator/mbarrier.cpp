// mbarrier objects in shared memory. PTX ISA 9.7.13.15.
//
// The object is opaque to programs. Here bits 0..19 are the arrivals still missing in this phase,
// 20..39 the arrivals of a phase, 40..60 the phase's transaction count plus 2^20, bit 62 is set by
// init, and bit 63 is the phase's parity. A phase is over when no arrival is missing and the
// transaction count is 0. The state that arrive returns is the object before the arrival; waits
// test its parity. Blocks that access one object are in one cluster, which one host thread runs.
#include "mbarrier.h"

#include "access.h"
#include "handlers.h"

#include <fmt/format.h>

#include <bit>

namespace tally::emulator {

namespace {

using ptx::Instruction;

constexpr std::uint64_t countMask = (1u << 20) - 1;
constexpr unsigned expectedShift = 20, transactionShift = 40, parityShift = 63;
constexpr std::uint64_t transactionMask = std::uint64_t{(1u << 21) - 1} << transactionShift;
constexpr std::uint64_t noTransactions = std::uint64_t{1u << 20} << transactionShift;
constexpr std::uint64_t live = std::uint64_t{1} << 62;

std::uint64_t *objectOf(std::uint64_t host) { return reinterpret_cast<std::uint64_t *>(host); }

/// Ends the phase if it is over.
void endPhase(std::uint64_t &object) {
  if ((object & countMask) != 0 || (object & transactionMask) != noTransactions)
    return;
  object ^= std::uint64_t{1} << parityShift;
  object |= object >> expectedShift & countMask;
}

/// Adds to the transaction count, which has 21 bits including its sign.
Status addTransactions(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t &object,
                       std::int64_t bytes) {
  auto now = static_cast<std::int64_t>((object & transactionMask) >> transactionShift) + bytes;
  if (now <= 0 || now >= 1 << 21)
    return raise(warp, op, lane, FaultKind::BarrierMisuse,
                 "the mbarrier's transaction count leaves its range");
  object = (object & ~transactionMask) | static_cast<std::uint64_t>(now) << transactionShift;
  return Status::Next;
}

/// Faults unless init() made an object at the address.
bool checkLive(Warp &warp, const Op &op, std::uint32_t mask, const std::uint64_t *host) {
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    if (*objectOf(host[lane]) & live)
      continue;
    static_cast<void>(raise(warp, op, lane, FaultKind::BarrierMisuse,
                            "an mbarrier that was not initialised, or is invalid"));
    return false;
  }
  return true;
}

// Op::slot: 0 destination or noSlot, 1 count, state or parity, 4 the address.
Status initialise(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Write, host))
    return Status::Fault;
  const auto *count = warp.row<std::uint32_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::uint64_t expected = count[lane];
    if (expected == 0 || expected > countMask)
      return raise(warp, op, lane, FaultKind::BarrierMisuse,
                   "an mbarrier's count is from 1 to 2^20 - 1");
    *objectOf(host[lane]) = expected | expected << expectedShift | noTransactions | live;
  }
  return Status::Next;
}

Status invalidate(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Write, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  for (; mask; mask &= mask - 1)
    *objectOf(host[std::countr_zero(mask)]) = 0;
  return Status::Next;
}

enum ArriveFlags : std::uint8_t {
  ExpectsBytes = 1, ///< slot 1 is the number of bytes to expect, and the lane makes one arrival
  Drops = 2,        ///< later phases take that many arrivals fewer
  NoComplete = 4    ///< must not end the phase
};

Status arriveOnce(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t &object,
                  std::uint32_t count) {
  std::uint64_t missing = object & countMask;
  if (count == 0 || count > missing)
    return raise(warp, op, lane, FaultKind::BarrierMisuse,
                 "more arrivals than the mbarrier's phase takes");
  if ((op.flags & NoComplete) && count == missing)
    return raise(warp, op, lane, FaultKind::BarrierMisuse,
                 "an arrive with .noComplete completes the phase");
  object -= count;
  if (op.flags & Drops)
    object -= std::uint64_t{count} << expectedShift;
  endPhase(object);
  return Status::Next;
}

Status arrive(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::ReadWrite, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  const auto *operand = warp.row<std::uint32_t>(op.slot[1]);
  auto *state = op.slot[0] == noSlot ? nullptr : warp.row<std::uint64_t>(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    std::uint64_t &object = *objectOf(host[lane]);
    bool expects = op.flags & ExpectsBytes;
    if (expects && addTransactions(warp, op, lane, object, operand[lane]) == Status::Fault)
      return Status::Fault;
    if (state)
      state[lane] = object;
    if (arriveOnce(warp, op, lane, object, expects ? 1 : operand[lane]) == Status::Fault)
      return Status::Fault;
  }
  return Status::Next;
}

/// expect_tx; with flags, complete_tx. Slot 1: the bytes.
Status transact(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::ReadWrite, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  const auto *bytes = warp.row<std::uint32_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    auto lane = static_cast<std::uint32_t>(std::countr_zero(mask));
    Status status = op.flags ? completeTransaction(warp, op, lane, host[lane], bytes[lane])
                             : addTransactions(warp, op, lane, *objectOf(host[lane]), bytes[lane]);
    if (status == Status::Fault)
      return status;
  }
  return Status::Next;
}

/// Slot 0: the arrivals that are missing in the state of slot 1.
Status pendingCount(Warp &warp, const Op &op, std::uint32_t mask) {
  auto *d = warp.row<std::uint32_t>(op.slot[0]);
  const auto *state = warp.row<std::uint64_t>(op.slot[1]);
  for (; mask; mask &= mask - 1) {
    int lane = std::countr_zero(mask);
    d[lane] = static_cast<std::uint32_t>(state[lane] & countMask);
  }
  return Status::Next;
}

/// Whether the phase of slot 1's parity, or state, is over. A wait that may block may answer no at
/// once.
template <class T, unsigned Shift> Status test(Warp &warp, const Op &op, std::uint32_t mask) {
  std::uint64_t host[warpSize];
  if (!resolveAddresses(warp, op, mask, 8, AccessKind::Read, host) ||
      !checkLive(warp, op, mask, host))
    return Status::Fault;
  const T *wanted = warp.row<T>(op.slot[1]);
  std::uint32_t &done = warp.predicate(op.slot[0]);
  for (; mask; mask &= mask - 1) {
    int lane = std::countr_zero(mask);
    bool over = *objectOf(host[lane]) >> parityShift != (wanted[lane] >> Shift & 1);
    done = (done & ~(1u << lane)) | static_cast<std::uint32_t>(over) << lane;
  }
  return Status::Next;
}

bool decodeArrive(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  std::span<const ptx::Operand> operands = instruction.operands;
  bool returns = !operands.empty() && operands[0].kind != ptx::OperandKind::Address;
  std::size_t next = returns ? 1 : 0;
  if (operands.size() <= next || operands.size() > next + 2)
    return false;
  bool expects = instruction.has("expect_tx");
  bool hasOperand = operands.size() == next + 2;
  if (expects && !hasOperand)
    return false;
  op.handler = arrive;
  op.flags = static_cast<std::uint8_t>((expects ? ExpectsBytes : 0) |
                                       (instruction.has("arrive_drop") ? Drops : 0) |
                                       (instruction.has("noComplete") ? NoComplete : 0));
  decoder.address(operands[next], op);
  op.slot[1] = hasOperand ? decoder.source(operands[next + 1], Type::U32) : decoder.constant(1, 4);
  if (returns && operands[0].kind != ptx::OperandKind::Sink) {
    if (op.space == Space::SharedCluster)
      return decoder.fail("an arrive in the cluster's shared memory returns no state");
    op.slot[0] = decoder.destination(operands[0], Type::U64);
  }
  return true;
}

bool decodeTest(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  std::span<const ptx::Operand> operands = instruction.operands;
  // try_wait may name a time limit behind the state; it is a hint.
  std::size_t most = instruction.has("try_wait") ? 4 : 3;
  if (operands.size() < 3 || operands.size() > most)
    return false;
  bool byParity = instruction.has("parity");
  op.handler = byParity ? test<std::uint32_t, 0> : test<std::uint64_t, parityShift>;
  decoder.address(operands[1], op);
  op.slot[1] = decoder.source(operands[2], byParity ? Type::U32 : Type::U64);
  op.slot[0] = decoder.predicateDestination(operands[0]);
  return true;
}

/// cp.async.mbarrier.arrive. Copies complete at once, so the arrival happens at once. Without
/// .noinc the pending count was incremented just before, so nothing changes.
bool decodeCopyArrive(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.operands.size() != 1)
    return false;
  if (!instruction.has("noinc")) {
    decoder.emit(nothing, {});
    return true;
  }
  Op op;
  op.space = spaceOf(instruction);
  op.handler = arrive;
  decoder.address(instruction.operands[0], op);
  op.slot[1] = decoder.constant(1, 4);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

bool decodeTransact(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  if (instruction.operands.size() != 2)
    return false;
  op.handler = transact;
  op.flags = instruction.has("complete_tx") ? 1 : 0;
  decoder.address(instruction.operands[0], op);
  op.slot[1] = decoder.source(instruction.operands[1], Type::U32);
  return true;
}

bool decodePendingCount(FunctionDecoder &decoder, const Instruction &instruction, Op &op) {
  if (instruction.operands.size() != 2)
    return false;
  op.handler = pendingCount;
  op.slot[1] = decoder.source(instruction.operands[1], Type::U64);
  op.slot[0] = decoder.destination(instruction.operands[0], Type::U32);
  return true;
}

} // namespace

Status completeTransaction(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t host,
                           std::uint64_t bytes) {
  std::uint64_t &object = *objectOf(host);
  if (!(object & live))
    return raise(warp, op, lane, FaultKind::BarrierMisuse,
                 "an mbarrier that was not initialised, or is invalid");
  Status status = addTransactions(warp, op, lane, object, -static_cast<std::int64_t>(bytes));
  if (status != Status::Fault)
    endPhase(object);
  return status;
}

void emitCompleteTransaction(FunctionDecoder &decoder, const ptx::Operand &address,
                             std::uint32_t bytes) {
  Op op;
  op.space = Space::SharedCluster;
  op.handler = transact;
  op.flags = 1;
  decoder.address(address, op);
  op.slot[1] = decoder.constant(bytes, 4);
  if (!decoder.failed())
    decoder.emit(op);
}

bool decodeMbarrier(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode == "cp" && instruction.has("mbarrier") && instruction.has("arrive"))
    return decodeCopyArrive(decoder, instruction);
  if (instruction.opcode != "mbarrier")
    return false;
  Op op;
  op.space = spaceOf(instruction);
  std::span<const ptx::Operand> operands = instruction.operands;
  bool known = false;
  if (instruction.has("init") && operands.size() == 2) {
    op.handler = initialise;
    decoder.address(operands[0], op);
    op.slot[1] = decoder.source(operands[1], Type::U32);
    known = true;
  } else if (instruction.has("inval") && operands.size() == 1) {
    op.handler = invalidate;
    decoder.address(operands[0], op);
    known = true;
  } else if (instruction.has("arrive") || instruction.has("arrive_drop")) {
    known = decodeArrive(decoder, instruction, op);
  } else if (instruction.has("test_wait") || instruction.has("try_wait")) {
    known = decodeTest(decoder, instruction, op);
  } else if (instruction.has("expect_tx") || instruction.has("complete_tx")) {
    known = decodeTransact(decoder, instruction, op);
  } else if (instruction.has("pending_count")) {
    known = decodePendingCount(decoder, instruction, op);
  }
  if (known && !decoder.failed())
    decoder.emit(op);
  return known;
}

} // namespace tally::emulator
