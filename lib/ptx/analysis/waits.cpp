#include "tally/ptx/analysis/waits.h"

#include "awaited_reads.h"
#include "cas_retry.h"
#include "claims.h"
#include "counters.h"
#include "look_back.h"
#include "loops.h"
#include "pointer_roots.h"
#include "shared_writes.h"
#include "taint.h"
#include "tally/ptx/analysis/opcodes.h"
#include "turnstile.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <optional>

namespace tally::ptx {
namespace {

/// A loop whose end depends on memory that other blocks write.
struct WaitingLoop : LoopReads {
  std::string callee; ///< the callee at the first of the reads; may be empty
};

class WaitFinder {
public:
  WaitFinder(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context)
      : cfg(cfg), facts(facts), context(context) {}

  WaitFacts run() {
    forEachLoop(cfg, [&](const Loop &loop) { see(loop); });
    if (waiting.empty())
      return std::move(result);
    bool followed = context.isEntry && !context.calleesWriteStrongly;
    result.waits = std::max(result.waits, followed ? classify() : bundle::Waits::Unknown);
    if (result.waits != bundle::Waits::Unknown)
      return std::move(result);
    for (const WaitingLoop &each : waiting)
      result.findings.push_back(
          {Reason::WaitsOnBlocks, cfg.function().body[each.reads.front()].text, each.callee});
    return std::move(result);
  }

private:
  void see(const Loop &loop) {
    WaitingLoop candidate{{loop, {}}, {}};
    auto add = [&](std::uint32_t statement) {
      if (loop.has(*cfg.blockOf(statement)))
        candidate.reads.push_back(statement);
    };
    llvm::for_each(facts.strongReads, add);
    if (mayPollPlainly(loop))
      llvm::for_each(facts.plainReads, add);
    bool onlyCalls = candidate.reads.empty();
    for (const CallSite &call : context.readingCalls) {
      add(call.statement);
      if (onlyCalls && candidate.callee.empty() && !candidate.reads.empty())
        candidate.callee = call.callee;
    }
    dropWhatDecidesNothing(candidate);
    bool waits = !candidate.reads.empty() && !isRetry(candidate) && decide(loop, candidate.reads);
    if (waits)
      waiting.push_back(std::move(candidate));
    else if (result.waits == bundle::Waits::None && waitsForOwnBlock(loop))
      result.waits = bundle::Waits::OwnBlock;
  }

  bool isRetry(const WaitingLoop &candidate) {
    bool hasAtomic = llvm::any_of(candidate.reads, [&](std::uint32_t read) {
      return cfg.instruction(read).opcode == "atom";
    });
    if (!hasAtomic)
      return false;
    if (!wholeBody)
      wholeBody.emplace(cfg);
    return isCasRetry(cfg, *wholeBody, candidate.loop, candidate.reads);
  }

  /// Whether classify() and isRetry() follow the read: a coherent load, an atomic or a call.
  bool isFollowed(std::uint32_t read) const {
    const Instruction &instruction = cfg.instruction(read);
    return (instruction.opcode == "ld" && !instruction.has("nc")) || instruction.opcode == "atom" ||
           instruction.opcode == "call";
  }

  /// Forgets copies, texture reads and other reads that are not followed, where they do not poll: a
  /// loop that takes its work from a counter may hold a pipeline of copies. A taint of several
  /// reads is the union of their taints, so nothing is lost. Copied data goes into a result, and
  /// the loop reads its work from a list by another pointer, which is assumed to address other
  /// memory.
  void dropWhatDecidesNothing(LoopReads &candidate) const {
    llvm::SmallVector<std::uint32_t, 8> copies, others;
    for (std::uint32_t read : candidate.reads)
      if (!isFollowed(read))
        (cfg.instruction(read).opcode == "cp" ? copies : others).push_back(read);
    if (copies.empty() && others.empty())
      return;
    std::optional<Definitions> whole;
    if (!copies.empty())
      whole.emplace(cfg);
    auto decides = [&](llvm::ArrayRef<std::uint32_t> reads, bool areCopies) {
      return !reads.empty() && decideWhenItEnds(cfg, candidate.loop, reads, context.exitingCalls,
                                                areCopies ? &*whole : nullptr);
    };
    bool anyCopy = decides(copies, true), anyOther = decides(others, false);
    llvm::erase_if(candidate.reads, [&](std::uint32_t read) {
      if (isFollowed(read))
        return false;
      bool isCopy = cfg.instruction(read).opcode == "cp";
      return !(isCopy ? anyCopy : anyOther) || !decides(read, isCopy);
    });
  }

  /// Whether a plain load in this loop may be a poll.
  bool mayPollPlainly(const Loop &loop) const {
    return context.calleesAidPolling || llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
             return llvm::any_of(block->instructions, [&](std::uint32_t statement) {
               return isPollingAid(cfg.instruction(statement));
             });
           });
  }

  /// Whether `reads` decide when the loop ends.
  bool decide(const Loop &loop, llvm::ArrayRef<std::uint32_t> reads) const {
    return decideWhenItEnds(cfg, loop, reads, context.exitingCalls);
  }

  bool waitsForOwnBlock(const Loop &loop) const {
    llvm::SmallVector<std::uint32_t, 4> reads;
    for (const CfgBlock *block : loop.blocks)
      for (std::uint32_t statement : block->instructions)
        if (awaitedBy(cfg.instruction(statement)) == Awaits::OwnBlock)
          reads.push_back(statement);
    return !reads.empty() && decide(loop, reads);
  }

  /// Returns for which blocks the waiting loops wait, and sets the rank.
  bundle::Waits classify() {
    Definitions whole(cfg);
    llvm::SmallVector<std::uint32_t, 4> reads;
    PointerRoots awaited;
    for (const WaitingLoop &each : waiting)
      for (std::uint32_t read : each.reads)
        if (!llvm::is_contained(reads, read)) {
          reads.push_back(read);
          awaited.add(rootsOfAddress(cfg, whole, cfg.instruction(read)));
        }
    // The analysis does not follow a callee's writes, nor reads other than loads and atomics.
    if (context.calleesWrite || !llvm::all_of(reads, [&](auto read) { return isFollowed(read); }))
      return bundle::Waits::Unknown;
    llvm::SmallVector<std::uint32_t, 8> writes = writesThatMatter(whole, awaited);
    llvm::SmallVector<LoopReads, 2> loops(waiting.begin(), waiting.end());
    if (areClaims(cfg, whole, loops, writes) || areCounters(cfg, whole, loops, writes))
      return bundle::Waits::None;
    if (auto dimension = commonTurnstile(whole, writes)) {
      result.gridRank = static_cast<std::uint8_t>(*dimension + 1);
      return bundle::Waits::LowerBlocks;
    }
    switch (lookBackOrder(cfg, whole, reads, writes)) {
    case BlockOrder::Blocks:
      result.gridRank = 1;
      return bundle::Waits::LowerBlocks;
    case BlockOrder::Tickets:
      return bundle::Waits::Tickets;
    case BlockOrder::None:
      break;
    }
    return bundle::Waits::Unknown;
  }

  /// Returns the writes for which another block may wait: strong writes, and plain writes by a
  /// pointer that awaited words are read by. (A plain write by another pointer would race, or is no
  /// flag.) The context covers calls.
  llvm::SmallVector<std::uint32_t, 8> writesThatMatter(const Definitions &whole,
                                                       const PointerRoots &awaited) const {
    llvm::SmallVector<std::uint32_t, 8> writes;
    for (const auto &block : cfg.blocks())
      for (std::uint32_t statement : block->instructions) {
        const Instruction &each = cfg.instruction(statement);
        if (each.opcode != "call" && mayWriteShared(each) &&
            (isStrongWrite(each) || awaited.meets(rootsOfAddress(cfg, whole, each))))
          writes.push_back(statement);
      }
    return writes;
  }

  /// Returns the dimension in which all waiting loops are turnstiles that every write passes.
  std::optional<unsigned> commonTurnstile(const Definitions &whole,
                                          llvm::ArrayRef<std::uint32_t> writes) const {
    std::optional<unsigned> common;
    for (const WaitingLoop &each : waiting) {
      auto dimension = turnstileDimension(cfg, whole, each.loop, each.reads);
      if (!dimension || (common && common != dimension))
        return std::nullopt;
      common = dimension;
    }
    bool allPass = llvm::all_of(writes, [&](std::uint32_t write) {
      return passesTurnstile(cfg, whole, cfg.instruction(write), *common);
    });
    return allPass ? common : std::nullopt;
  }

  const Cfg &cfg;
  const FunctionFacts &facts;
  const WaitContext &context;
  WaitFacts result;
  std::vector<WaitingLoop> waiting;
  std::optional<Definitions> wholeBody; ///< set on first use
};

} // namespace

WaitFacts findWaits(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context) {
  return WaitFinder(cfg, facts, context).run();
}

} // namespace tally::ptx
