#include "tally/ptx/analysis/waits.h"

#include "cas_retry.h"
#include "claims.h"
#include "counters.h"
#include "look_back.h"
#include "loops.h"
#include "pointer_roots.h"
#include "shared_writes.h"
#include "tally/ptx/analysis/opcodes.h"
#include "turnstile.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <optional>

namespace tally::ptx {
namespace {

/// What a taint may be kept in, other than registers: one cell for each state space (an access that
/// names a space reaches no other), and one for what a warp's lanes tell each other.
enum Cell : unsigned { Shared = 1, Local = 2, Global = 4, Param = 8, Warp = 16, All = 31 };

/// The cells that an access to memory may reach. A generic address is of any of three.
unsigned cellsOf(const Instruction &access) {
  for (std::string_view each : access.modifiers) {
    if (each.starts_with("shared"))
      return Shared;
    if (each == "local")
      return Local;
    if (each == "global")
      return Global;
    if (each.starts_with("param"))
      return Param;
    if (each == "const")
      return 0;
  }
  return Shared | Local | Global;
}

/// The cells that `instruction` may write.
unsigned cellsWrittenBy(const Instruction &instruction) {
  llvm::StringRef opcode(instruction.opcode.data(), instruction.opcode.size());
  if (opcode == "st" || opcode == "atom" || opcode == "red")
    return instruction.has("async") ? All : cellsOf(instruction);
  bool isSilent = llvm::StringSwitch<bool>(opcode)
                      .Cases({"bar", "barrier", "membar", "fence", "nanosleep"}, true)
                      .Cases({"shfl", "vote", "match", "activemask", "redux", "elect"}, true)
                      .Default(false);
  if (isSilent)
    return Warp;
  ResultKind kind = resultKindOf(instruction);
  bool writes =
      !isTerminator(instruction) && kind != ResultKind::Pure && kind != ResultKind::Memory;
  return writes ? +All : 0;
}

/// Follows what other blocks wrote through one loop.
class Taint {
public:
  Taint(const Cfg &cfg, const Loop &loop, const llvm::DenseSet<std::uint32_t> &sources)
      : cfg(cfg), loop(loop), sources(sources) {
    if (!loop.header)
      return;
    turn.emplace(cfg, loop.blocks, *loop.header);
    dependence.emplace(*turn);
  }

  bool reachesExit() {
    do {
      changed = false;
      for (const CfgBlock *block : loop.blocks)
        visit(*block);
    } while (changed);
    return llvm::any_of(loop.blocks, [&](const CfgBlock *block) {
      if (block->successors.size() < 2 || !(decides(*block) || control.contains(block)))
        return false;
      // Without a header every decision may be a way out of some turn.
      return !loop.header || llvm::any_of(block->successors,
                                          [&](const CfgBlock *next) { return !loop.has(*next); });
    });
  }

private:
  bool isTainted(const Operand &operand) const {
    bool any = false;
    forEachOperand(operand, [&](const Operand &each) {
      any |= each.kind == OperandKind::Register && registers.contains(each.reg);
    });
    return any;
  }

  bool decides(const CfgBlock &block) const {
    const Instruction *last = cfg.terminator(block);
    return last && ((last->guard && isTainted(last->guard->predicate)) ||
                    (last->opcode == "brx" && llvm::any_of(last->operands, [&](const auto &each) {
                       return isTainted(each);
                     })));
  }

  const CfgBlock *copyOf(const CfgBlock &block) const {
    return turn->blockOf(block.instructions.front());
  }

  void visit(const CfgBlock &block) {
    if (dependence && !block.instructions.empty())
      for (const CfgBlock *branch : dependence->controllers(*copyOf(block))) {
        const CfgBlock *original = cfg.blockOf(branch->instructions.front());
        if (decides(*original) || control.contains(original))
          changed |= control.insert(&block).second;
      }
    for (std::uint32_t statement : block.instructions) {
      const Instruction &instruction = cfg.instruction(statement);
      bool tainted = control.contains(&block) || sources.contains(statement) ||
                     (instruction.guard && isTainted(instruction.guard->predicate)) ||
                     (cellsReadBy(instruction) & memory);
      if (!tainted)
        forEachReadRegister(instruction,
                            [&](const Operand &each) { tainted |= registers.contains(each.reg); });
      if (!tainted)
        continue;
      forEachWrittenRegister(
          instruction, [&](const Operand &each) { changed |= registers.insert(each.reg).second; });
      unsigned written = cellsWrittenBy(instruction) & ~memory;
      changed |= written != 0;
      memory |= written;
    }
  }

  /// The cells that `instruction` may read. Kernel parameters are nobody's to write.
  unsigned cellsReadBy(const Instruction &instruction) const {
    switch (resultKindOf(instruction)) {
    case ResultKind::Memory:
      return readsEntryParameter(instruction) ? 0 : cellsOf(instruction);
    case ResultKind::Varying:
      return instruction.opcode == "atom" ? cellsOf(instruction) : All;
    case ResultKind::Unknown:
      return All;
    case ResultKind::None:
    case ResultKind::Pure:
      break;
    }
    return 0;
  }

  bool readsEntryParameter(const Instruction &instruction) const {
    if (!instruction.has("param") || instruction.operands.size() < 2 ||
        instruction.operands[1].children.empty())
      return false;
    const Operand &base = instruction.operands[1].children[0];
    return base.kind == OperandKind::Symbol &&
           llvm::any_of(cfg.function().parameters,
                        [&](const Variable &each) { return each.name == base.symbol; });
  }

  const Cfg &cfg;
  const Loop &loop;
  const llvm::DenseSet<std::uint32_t> &sources;
  std::optional<Cfg> turn; ///< one turn of the loop
  std::optional<ControlDependence> dependence;
  llvm::DenseSet<RegisterId> registers;
  llvm::DenseSet<const CfgBlock *> control;
  unsigned memory = 0; ///< of Cell
  bool changed = false;
};

/// A loop whose end depends on what other blocks write.
struct WaitingLoop : LoopReads {
  std::string callee; ///< called for the first of the reads; may be empty
};

class Finder {
public:
  Finder(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context)
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
    bool waits = !candidate.reads.empty() && !isCasRetry(cfg, loop, candidate.reads) &&
                 decide(loop, candidate.reads);
    if (waits)
      waiting.push_back(std::move(candidate));
    else if (result.waits == bundle::Waits::None && waitsForOwnBlock(loop))
      result.waits = bundle::Waits::OwnBlock;
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
    llvm::DenseSet<std::uint32_t> sources;
    sources.insert(reads.begin(), reads.end());
    return Taint(cfg, loop, sources).reachesExit();
  }

  bool waitsForOwnBlock(const Loop &loop) const {
    llvm::SmallVector<std::uint32_t, 4> reads;
    for (const CfgBlock *block : loop.blocks)
      for (std::uint32_t statement : block->instructions)
        if (isOwnBlockRead(cfg.instruction(statement)))
          reads.push_back(statement);
    return !reads.empty() && decide(loop, reads);
  }

  /// Shows for which blocks the waiting loops wait, and sets the rank.
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
    // What a callee writes by is not followed.
    if (context.calleesWrite)
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

  /// Writes for which another block may wait: strong ones, and plain ones by a pointer that the
  /// awaited words are read by. (By another pointer a plain one would race, or is no flag.) Calls
  /// stand in the context.
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

  /// The dimension in which all waiting loops are turnstiles that every write passes.
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
};

} // namespace

WaitFacts findWaits(const Cfg &cfg, const FunctionFacts &facts, const WaitContext &context) {
  return Finder(cfg, facts, context).run();
}

} // namespace tally::ptx
