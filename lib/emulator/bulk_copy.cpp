// cp.async.bulk without tensor maps. PTX ISA 9.7.9.25.
//
// A copy completes when it is issued, as an asynchronous copy may. Its complete_tx comes at once (a
// transaction count may fall below zero before it is expected), and waits for groups find nothing
// to wait for. Tensor copies need a tensor map, whose layout is not public.
#include "access.h"
#include "cluster.h"
#include "decoder.h"
#include "handlers.h"
#include "mbarrier.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace tally::emulator {

namespace {

using ptx::Instruction;

// Op::slot: 0 the destination, 1 the source, 2 bytes, 3 the mbarrier or noSlot, 5 the mask of ranks
// or noSlot; addresses are 64-bit rows.
enum CopyFlags : std::uint8_t {
  FromGlobal = 1, ///< else from the block's own shared memory
  ToGlobal = 2    ///< else to the cluster's
};

Status misaligned(Warp &warp, const Op &op, std::uint32_t lane) {
  return raise(warp, op, lane, FaultKind::Misaligned,
               "a bulk copy's addresses and size are multiples of 16, its mbarrier's of 8");
}

/// Copies to one block's shared memory, or to global memory, and informs the mbarrier there.
Status copyTo(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t to, std::uint64_t object,
              std::uint64_t fromHost, std::uint32_t bytes) {
  Space space = op.flags & ToGlobal ? Space::Global : Space::SharedCluster;
  std::uint64_t toHost = hostRange(warp, op, lane, space, to, bytes, AccessKind::Write);
  if (!toHost)
    return Status::Fault;
  std::memcpy(reinterpret_cast<void *>(toHost), reinterpret_cast<const void *>(fromHost), bytes);
  if (op.slot[3] == noSlot)
    return Status::Next;
  std::uint64_t objectHost =
      hostRange(warp, op, lane, Space::SharedCluster, object, 8, AccessKind::ReadWrite);
  return objectHost ? completeTransaction(warp, op, lane, objectHost, bytes) : Status::Fault;
}

std::uint64_t inRank(std::uint64_t address, std::uint32_t rank) {
  return (address & sharedOffsetMask) | (std::uint64_t{rank} + 1) << clusterRankShift;
}

Status copyByLane(Warp &warp, const Op &op, std::uint32_t lane) {
  std::uint64_t to = warp.row<std::uint64_t>(op.slot[0])[lane];
  std::uint64_t from = warp.row<std::uint64_t>(op.slot[1])[lane];
  std::uint32_t bytes = warp.row<std::uint32_t>(op.slot[2])[lane];
  std::uint64_t object = op.slot[3] == noSlot ? 0 : warp.row<std::uint64_t>(op.slot[3])[lane];
  if ((to | from | bytes) % 16 || object % 8)
    return misaligned(warp, op, lane);
  if (bytes == 0)
    return Status::Next;
  Space space = op.flags & FromGlobal ? Space::Global : Space::Shared;
  std::uint64_t fromHost = hostRange(warp, op, lane, space, from, bytes, AccessKind::Read);
  if (!fromHost)
    return Status::Fault;
  if (op.slot[5] == noSlot)
    return copyTo(warp, op, lane, to, object, fromHost, bytes);
  std::uint32_t ranks = warp.row<std::uint16_t>(op.slot[5])[lane];
  for (; ranks; ranks &= ranks - 1) {
    auto rank = static_cast<std::uint32_t>(std::countr_zero(ranks));
    if (copyTo(warp, op, lane, inRank(to, rank), inRank(object, rank), fromHost, bytes) ==
        Status::Fault)
      return Status::Fault;
  }
  return Status::Next;
}

Status bulkCopy(Warp &warp, const Op &op, std::uint32_t mask) {
  for (; mask; mask &= mask - 1)
    if (copyByLane(warp, op, static_cast<std::uint32_t>(std::countr_zero(mask))) == Status::Fault)
      return Status::Fault;
  return Status::Next;
}

/// Returns the address as a 64-bit row.
Slot addressValue(FunctionDecoder &decoder, const ptx::Operand &operand) {
  if (operand.kind != ptx::OperandKind::Address || operand.children.empty()) {
    decoder.fail(fmt::format("operand '{}' is no address", operand.text));
    return noSlot;
  }
  Slot base = decoder.source(operand.children[0], Type::U64);
  if (operand.bits == 0 || decoder.failed())
    return base;
  Slot sum = decoder.temporary(8);
  decoder.emit(vectorHandlers().integer(IntegerOp::Add, Type::U64),
               {sum, base, decoder.constant(operand.bits, 8)});
  return sum;
}

/// Whether the first named space is global, and whether the second is.
struct Direction {
  bool fromGlobal, toGlobal;
};
std::optional<Direction> directionOf(const Instruction &instruction) {
  std::string_view first, second;
  for (std::string_view each : instruction.modifiers)
    if (each == "global" || each == "shared::cta" || each == "shared::cluster") {
      if (!first.empty() && second.empty())
        second = each;
      if (first.empty())
        first = each;
    }
  if (second.empty() || (first == "global" && second == "global"))
    return std::nullopt;
  return Direction{second == "global", first == "global"};
}

bool decodeCopy(FunctionDecoder &decoder, const Instruction &instruction) {
  std::optional<Direction> direction = directionOf(instruction);
  const auto &operands = instruction.operands;
  bool byBarrier = instruction.has("mbarrier::complete_tx::bytes");
  bool multicasts = instruction.has("multicast::cluster");
  std::size_t least = 3u + (byBarrier ? 1 : 0) + (multicasts ? 1 : 0);
  std::size_t most = least + (instruction.has("L2::cache_hint") ? 1 : 0);
  if (!direction || instruction.has("cp_mask") || operands.size() < least || operands.size() > most)
    return false;
  Op op;
  op.handler = bulkCopy;
  op.flags = static_cast<std::uint8_t>((direction->fromGlobal ? FromGlobal : 0) |
                                       (direction->toGlobal ? ToGlobal : 0));
  op.slot[0] = addressValue(decoder, operands[0]);
  op.slot[1] = addressValue(decoder, operands[1]);
  op.slot[2] = decoder.source(operands[2], Type::U32);
  if (byBarrier)
    op.slot[3] = addressValue(decoder, operands[3]);
  if (multicasts)
    op.slot[5] = decoder.source(operands[4], Type::U16);
  if (!decoder.failed())
    decoder.emit(op);
  return true;
}

} // namespace

bool decodeBulkCopy(FunctionDecoder &decoder, const Instruction &instruction) {
  if (instruction.opcode != "cp" || !instruction.has("bulk") || !instruction.has("async"))
    return false;
  if (instruction.has("commit_group") || instruction.has("wait_group") ||
      instruction.has("prefetch")) {
    decoder.emit(nothing, {});
    return true;
  }
  if (instruction.has("tensor"))
    return decoder.fail("a tensor map");
  if (instruction.has("reduce"))
    return decoder.fail("a bulk reduction");
  return decodeCopy(decoder, instruction);
}

} // namespace tally::emulator
