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

/// Turns of a loop inside of another, where they are not written down. A loop of fewer instructions
/// than this makes long is not worth a poll in each turn: the loop around it polls.
constexpr std::uint64_t usualTurns = 16;
/// Nothing is longer: sums and products stay far below what 64 bits hold.
constexpr std::uint64_t longest = std::uint64_t{1} << 40;
/// Of a loop with more blocks each is taken to be come by in each turn.
constexpr std::size_t mostLookedAt = 256;

/// A turn of more periods is no part of a strip: each polls.
constexpr std::uint64_t longestTurn = 2;

/// A scheduler's registers for each thread of a warp, and what a kernel takes beside those that
/// live through a loop's head. Below so many warps it is latencies that count.
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
    // What takes more analyses only makes turns shorter.
    if (sites.empty())
      return {};
    ControlDependence dependence(cfg);
    Uniformity uniformity(cfg, dependence);
    BlockCosts costs(cfg, busyWarps(), uniformity);
    price([&](const CfgBlock &block, const Loop &loop) {
      // What a turn may go past it goes past in every second one.
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
    std::uint64_t cycles = 0;   ///< of a turn: its own blocks, and the loops inside of it
    std::uint64_t unpolled = 0; ///< the same without the loops that poll
    bool isPolled = false;      ///< each turn comes by a poll inside of it
  };

  /// Loops come outer before inner, so the last one found that holds a loop is the next around it.
  void nest() {
    for (std::size_t i = 0; i != nests.size(); ++i)
      for (std::size_t j = i; j-- > 0 && !nests[i].parent;)
        if (nests[j].loop.blocks.size() > nests[i].loop.blocks.size() &&
            nests[j].loop.has(*nests[i].loop.blocks.front()))
          nests[i].parent = j;
  }

  void find() {
    sites.clear();
    // From the inside out: a parent was found before its children.
    for (std::size_t i = nests.size(); i-- > 0;)
      decide(nests[i]);
    llvm::sort(sites,
               [](const PollSite &a, const PollSite &b) { return a.statement < b.statement; });
  }

  /// Of a scheduler, as far as it shows in registers.
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

  /// The cycles of each loop's own blocks.
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
    // A loop inside of another may be short each time that it is entered.
    if (!nest.parent || known.value_or(0) >= site.turns) {
      if (site.turns > 1)
        site.turn = turns.registerFor(std::bit_floor(site.turns));
      if (site.turn.reg != noRegister)
        site.turns = std::bit_floor(site.turns);
      // Who is between two strips waits for what is read there, so they are not short.
      std::uint64_t length = turnsOfStrip(nest.unpolled, known);
      if (length > 1 && (!nest.parent || length * nest.unpolled >= rules.apart()))
        site.strip = turns.stripFor(static_cast<std::uint32_t>(length));
    }
    sites.push_back(std::move(site));
    nest.isPolled = true;
  }

  /// Strips of one length, as long as the rules say, or two turns where one is longer than half of
  /// that.
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
