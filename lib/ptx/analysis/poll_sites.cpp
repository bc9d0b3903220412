#include "tally/ptx/analysis/poll_sites.h"

#include "instruction_cost.h"
#include "loops.h"
#include "tally/ptx/analysis/liveness.h"
#include "turns.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace tally::ptx {
namespace {

/// Assumed turns of an inner loop whose number of turns is unknown. If this many turns do not make
/// a loop long, a poll in each turn would not pay: the loop around it polls.
constexpr std::uint64_t usualTurns = 16;
/// Cap on estimates: sums and products stay far below the limit of 64 bits.
constexpr std::uint64_t longest = std::uint64_t{1} << 40;
/// In a loop with more blocks the estimate assumes that each turn executes every block.
constexpr std::size_t mostLookedAt = 256;

/// A turn of more periods than this is no part of a strip: each turn polls.
constexpr std::uint64_t longestTurn = 2;

/// A scheduler's registers for each thread of a warp, and the registers that a kernel uses besides
/// those that live across a loop's head. Below `fewestWarps` latencies dominate.
constexpr std::uint64_t schedulerRegisters = 512, workingRegisters = 24;
constexpr std::uint64_t fewestWarps = 2;

class PollSiteFinder {
public:
  PollSiteFinder(Cfg &cfg, const PollRules &rules) : cfg(cfg), rules(rules), definitions(cfg) {
    forEachLoop(cfg, [&](const Loop &loop) { nests.push_back({loop}); });
  }

  std::vector<PollSite> run() {
    nest();
    price([&](const CfgBlock &block, const Loop &) {
      std::uint64_t cycles = 0;
      for (std::uint32_t statement : block.instructions)
        cycles += cyclesOf(cfg.instruction(statement));
      return cycles;
    });
    find();
    // The costlier analyses only make turns shorter, so they cannot add a site.
    if (sites.empty())
      return {};
    ControlDependence dependence(cfg);
    Uniformity uniformity(cfg, dependence);
    BlockCosts costs(cfg, busyWarps(), uniformity);
    price([&](const CfgBlock &block, const Loop &loop) {
      // A block that a turn may skip counts for every second turn.
      bool isSometimes = loop.blocks.size() <= mostLookedAt && mayTurnWithout(loop, block);
      return isSometimes ? costs.of(block) / 2 : costs.of(block);
    });
    find();
    return std::move(sites);
  }

private:
  struct Nest {
    Loop loop;
    std::optional<std::size_t> parent = std::nullopt;
    std::uint64_t cycles = 0;   ///< cycles of a turn: its own blocks, and the inner loops
    std::uint64_t unpolled = 0; ///< cycles of a turn, without the loops that poll
    bool isPolled = false;      ///< each turn passes a poll in an inner loop
  };

  /// Loops come outer before inner, so the last loop found that holds a loop is its parent.
  void nest() {
    for (std::size_t i = 0; i != nests.size(); ++i)
      for (std::size_t j = i; j-- > 0 && !nests[i].parent;)
        if (nests[j].loop.blocks.size() > nests[i].loop.blocks.size() &&
            nests[j].loop.has(*nests[i].loop.blocks.front()))
          nests[i].parent = j;
  }

  void find() {
    sites.clear();
    // From the inside out: parents precede their children.
    for (std::size_t i = nests.size(); i-- > 0;)
      decide(nests[i]);
    llvm::sort(sites,
               [](const PollSite &a, const PollSite &b) { return a.statement < b.statement; });
  }

  /// Busy warps of a scheduler, as far as live registers determine them.
  unsigned busyWarps() const {
    Liveness liveness(cfg);
    std::uint64_t most = 0;
    for (const Nest &nest : nests) {
      if (!nest.loop.header)
        continue;
      std::uint64_t registers = 0;
      for (RegisterId reg : liveness.liveIn(*nest.loop.header)) {
        std::string_view type = cfg.function().declarationOf(reg).type;
        registers += type == "pred" ? 0 : type.ends_with("64") ? 2 : 1;
      }
      most = std::max(most, registers);
    }
    return static_cast<unsigned>(std::clamp<std::uint64_t>(
        schedulerRegisters / (most + workingRegisters), fewestWarps, usualWarps));
  }

  /// Computes the cycles of each loop's own blocks.
  void price(llvm::function_ref<std::uint64_t(const CfgBlock &, const Loop &)> cyclesOfBlock) {
    std::vector<std::size_t> innermost(cfg.size(), nests.size());
    for (std::size_t i = 0; i != nests.size(); ++i)
      for (const CfgBlock *block : nests[i].loop.blocks)
        if (innermost[block->number] == nests.size() ||
            nests[i].loop.blocks.size() < nests[innermost[block->number]].loop.blocks.size())
          innermost[block->number] = i;
    for (Nest &each : nests)
      each.cycles = 0;
    for (const auto &block : cfg.blocks())
      if (std::size_t at = innermost[block->number]; at != nests.size())
        nests[at].cycles += cyclesOfBlock(*block, nests[at].loop);
    for (Nest &each : nests) {
      each.unpolled = each.cycles = std::max<std::uint64_t>(each.cycles, 1);
      each.isPolled = false;
    }
  }

  void decide(Nest &nest) {
    Turns turns(cfg, nest.loop, definitions);
    std::optional<std::uint64_t> known = turns.constant();
    bool endless = !nest.parent && !known;
    auto together = [&](std::uint64_t cycles) {
      return std::min(longest, cycles * std::min(longest / cycles, known.value_or(usualTurns)));
    };
    bool isLong = together(nest.unpolled) >= rules.period || endless;
    if (nest.loop.header && !nest.loop.header->instructions.empty() &&
        (nest.isPolled ? nest.unpolled >= rules.apart() : isLong))
      poll(nest, turns, known);
    if (!nest.parent)
      return;
    Nest &around = nests[*nest.parent];
    around.cycles = std::min(longest, around.cycles + together(nest.cycles));
    if (!nest.isPolled)
      around.unpolled = std::min(longest, around.unpolled + together(nest.unpolled));
    else if (nest.loop.header && !mayTurnWithout(around.loop, *nest.loop.header))
      around.isPolled = true;
  }

  void poll(Nest &nest, const Turns &turns, std::optional<std::uint64_t> known) {
    PollSite site;
    site.header = nest.loop.header;
    site.blocks = nest.loop.blocks;
    site.statement = nest.loop.header->instructions.front();
    site.cycles = nest.unpolled;
    site.isOutermost = !nest.parent;
    site.turns = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(rules.apart() / nest.unpolled, 1, 1 << 16));
    // An inner loop may make few turns each time that control enters it.
    if (!nest.parent || known.value_or(0) >= site.turns) {
      if (site.turns > 1)
        site.turn = turns.registerFor(std::bit_floor(site.turns));
      if (site.turn.reg != noRegister)
        site.turns = std::bit_floor(site.turns);
      // A thread between two strips waits for the word that it reads there, so strips are not
      // short.
      std::uint64_t length = turnsOfStrip(nest.unpolled, known);
      if (length > 1 && (!nest.parent || length * nest.unpolled >= rules.apart()))
        site.strip = turns.stripFor(static_cast<std::uint32_t>(length));
    }
    sites.push_back(std::move(site));
    nest.isPolled = true;
  }

  /// Returns the turns of a strip. Strips have one length: the length that the rules demand, or two
  /// turns where one turn is longer than half of it.
  std::uint64_t turnsOfStrip(std::uint64_t cycles, std::optional<std::uint64_t> known) const {
    if (cycles > longestTurn * rules.period)
      return 1;
    std::uint64_t turns =
        std::clamp<std::uint64_t>(rules.seenWithin * rules.period / cycles, 2, 1 << 17);
    if (known) {
      std::uint64_t strips = (*known + turns - 1) / turns;
      turns = (*known + strips - 1) / strips;
    }
    return turns;
  }

  Cfg &cfg;
  const PollRules &rules;
  Definitions definitions;
  std::vector<Nest> nests;
  std::vector<PollSite> sites;
};

} // namespace

std::vector<PollSite> findPollSites(Cfg &cfg, const PollRules &rules) {
  return PollSiteFinder(cfg, rules).run();
}

} // namespace tally::ptx
