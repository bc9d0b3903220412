#include "choose.h"

#include "occupancy.h"

#include "tally/ptx/syntax/parser.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::ptxopt {
namespace {

/// More spilled bytes cost a block more than an SM that holds one block less.
constexpr std::uint32_t maxSpillBytes = 128;
/// Bytes of stores and loads. So few words are spilled outside of inner loops.
constexpr std::uint32_t fewSpillBytes = 32;
constexpr std::uint32_t registerStep = 8, fewestRegisters = 24, mostRegistersOfThread = 255;
/// Most entries take at most this many more registers than the user's kernel.
constexpr std::uint32_t registersAdded = 24;
/// The block of a request that should find headroom beside a pause variant.
constexpr std::uint32_t threadsOfRequest = 256, registersOfRequest = threadsOfRequest * 16;

/// One entry of a variant, and its best coding so far.
struct Place {
  ptx::RewrittenKernel *kernel;
  ptx::Variant *variant;
  std::size_t index; ///< index of the entry
  std::string name;
  std::uint32_t threads = 0;
  EntryUsage user, best;
};

/// Another coding of the entry.
struct Candidate {
  Place *place;
  std::string coding, name, text; ///< the text has the entry under `name`
  bool onlyForOccupancy = false;
  bool mustNotSpill = false; ///< more than the best coding so far
  bool isForSpills = false;  ///< better only if it spills no more than the user's kernel
  bool isForRoom = false;    ///< better if it takes fewer registers and no more of anything else
  bool isReset = false;      ///< better than any other: undoes a cap that makes the entry spill
};

std::string renamed(std::string text, std::string_view from, std::string_view to) {
  std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Returns a coding's name with a cap.
std::string withCap(std::string_view coding, std::uint32_t cap) {
  return fmt::format("{}{}maxnreg {}", coding, coding.empty() ? "" : ", ", cap);
}

bool isCapped(std::string_view coding) { return coding.find("maxnreg") != std::string_view::npos; }

std::vector<Place> placesOf(Job &job, const Assembled &assembled) {
  std::vector<Place> places;
  for (ptx::RewrittenKernel &kernel : job.kernels) {
    auto user = assembled.entries.find(kernel.layout.name);
    if (user == assembled.entries.end())
      continue;
    for (ptx::Variant &variant : kernel.variants)
      for (std::size_t i = 0; i != variant.entries.size(); ++i) {
        std::string name = bundle::entryName(kernel.layout.name, variant.verdict.kind, i == 1);
        if (auto entry = assembled.entries.find(name); entry != assembled.entries.end())
          places.push_back({&kernel, &variant, i, name, threadsOf(*kernel.function), user->second,
                            entry->second});
      }
  }
  return places;
}

class Chooser {
public:
  Chooser(const ModuleAssembler &assembler, Job &job, const Assembled &assembled,
          std::vector<Uncapped> capped)
      : assembler(assembler), job(job), arch(assembler.architecture().number),
        places(placesOf(job, assembled)), cappedAhead(std::move(capped)) {}

  bool run() {
    tryAll(uncapped());
    tryAll(defaultCaps());
    tryAll(usersCaps(/*mayRegain=*/true));
    tryAll(alternatives());
    tryAll(caps());
    tryAll(alternativesCaps());
    tryAll(usersCaps(/*mayRegain=*/false));
    tryAll(withoutSpills());
    tryAll(capsForRoom());
    return changed;
  }

private:
  std::uint32_t blocks(const Place &place, const EntryUsage &usage) const {
    return blocksPerSm(arch, place.threads, usage.registers, usage.sharedBytes);
  }
  static bool spillsMuch(const Place &place) {
    return place.best.spillBytes > place.user.spillBytes + maxSpillBytes;
  }
  bool losesOccupancy(const Place &place) const { return losesOccupancy(place, place.threads); }
  bool losesOccupancy(const Place &place, std::uint32_t threads) const {
    auto fit = [&](const EntryUsage &usage) {
      return blocksPerSm(arch, threads, usage.registers, usage.sharedBytes);
    };
    return fit(place.best) < fit(place.user);
  }

  /// Returns the entries that the cap of capAhead() makes spill, without the cap.
  std::vector<Candidate> uncapped() {
    std::vector<Candidate> candidates;
    for (Place &place : places)
      if (place.best.spillBytes > place.user.spillBytes)
        for (const Uncapped &each : cappedAhead)
          if (each.name == place.name) {
            std::string name = fmt::format("{}_{}", place.name, candidates.size());
            candidates.push_back(
                {&place, each.coding, name, renamed(each.text.str(), place.name, name)});
            candidates.back().isReset = true;
          }
    return candidates;
  }

  /// Returns the other codings of entries that lose blocks or spill much. The first better coding
  /// costs another assembly of the whole module, so a few registers that cost no block are no
  /// reason to try.
  std::vector<Candidate> alternatives() {
    std::vector<Candidate> candidates;
    for (Place &place : places) {
      if (!mayBeCheaper(place))
        continue;
      for (const ptx::Alternative &alternative : place.variant->alternatives)
        if (!alternative.coding.onlyForOccupancy || losesOccupancy(place)) {
          std::string name = fmt::format("{}_{}", place.name, candidates.size());
          candidates.push_back({&place, std::string(alternative.coding.name), name,
                                renamed(alternative.entries[place.index].str(), place.name, name),
                                alternative.coding.onlyForOccupancy});
        }
    }
    return candidates;
  }

  /// Returns the default coding with a cap, for checkpoint variants that lose blocks on an SM
  /// without the cap. In other variants, which read the block's ids at each use, the turns of loops
  /// cost more than a few spilled words.
  std::vector<Candidate> defaultCaps() {
    std::vector<Candidate> candidates;
    for (Candidate &each : caps())
      if (each.place->variant->verdict.kind == Kind::Checkpoint)
        candidates.push_back(std::move(each));
    return candidates;
  }

  std::vector<Candidate> caps() {
    std::vector<Candidate> candidates;
    for (Place &place : places)
      if (std::uint32_t cap = losesOccupancy(place) && mayCap(place) ? capFor(place) : 0)
        candidates.push_back(capped(place, cap, candidates.size()));
    return candidates;
  }

  /// Returns the other codings with that cap, where the best coding does not fit with it.
  std::vector<Candidate> alternativesCaps() {
    std::vector<Candidate> candidates;
    for (Place &place : places)
      if (std::uint32_t cap = losesOccupancy(place) && mayCap(place) ? capFor(place) : 0)
        for (const ptx::Alternative &alternative : place.variant->alternatives)
          candidates.push_back(capped(place, alternative.coding.name,
                                      alternative.entries[place.index], cap, candidates.size()));
    return candidates;
  }

  /// Returns checkpoint variants that lose blocks or spill, capped at the user's registers (in
  /// whole steps) and at a step more. ptxas takes registers freely in code that saves and restores,
  /// which seldom runs. If a capped variant does not spill, the user's registers suffice.
  std::vector<Candidate> usersCaps(bool mayRegain) {
    std::vector<Candidate> candidates;
    for (Place &place : places) {
      // Where blocks are lost, another coding or cap may still regain them.
      if (place.variant->verdict.kind != Kind::Checkpoint || !mayCap(place) ||
          !mayBeCheaper(place) || (mayRegain && losesOccupancy(place)))
        continue;
      std::uint32_t users = (place.user.registers + registerStep - 1) / registerStep * registerStep;
      for (std::uint32_t cap : {std::max(users, fewestRegisters), users + registerStep})
        if (cap >= fewestRegisters && cap < place.best.registers) {
          candidates.push_back(capped(place, cap, candidates.size()));
          candidates.back().mustNotSpill = true;
        }
    }
    return candidates;
  }

  /// Returns, for checkpoint variants that spill under a cap, the other codings with the registers
  /// that the variant takes. Few spilled words cost little by themselves, but ptxas assigns
  /// registers by bank only where it does not have to spill: with spills, 24 of 128 multiply-adds
  /// in `tiled_product` of benchmarks/variants read three registers of one bank.
  std::vector<Candidate> withoutSpills() {
    std::vector<Candidate> candidates;
    for (Place &place : places) {
      if (place.variant->verdict.kind != Kind::Checkpoint ||
          place.best.spillBytes <= place.user.spillBytes ||
          !isCapped(place.variant->codings[place.index]) ||
          place.kernel->function->directive("maxnreg"))
        continue;
      for (const ptx::Alternative &alternative : place.variant->alternatives)
        if (!alternative.coding.onlyForOccupancy) {
          candidates.push_back(capped(place, alternative.coding.name,
                                      alternative.entries[place.index], place.best.registers,
                                      candidates.size()));
          candidates.back().isForSpills = true;
        }
    }
    return candidates;
  }

  /// Returns pause variants with so few registers that a request's block fits beside as many blocks
  /// as an SM holds anyway. Without the cap one block would have to be left out: a quarter of a
  /// kernel's warps where four blocks fill the registers.
  std::vector<Candidate> capsForRoom() {
    std::vector<Candidate> candidates;
    for (Place &place : places) {
      if (place.variant->verdict.kind != Kind::Pause || !mayCap(place))
        continue;
      std::uint32_t held = blocks(place, place.best);
      auto leavesRoom = [&](std::uint32_t registers) {
        return registersLeft(place.threads, registers, held) >= registersOfRequest;
      };
      if (leavesRoom(place.best.registers) ||
          threadsLeft(arch, place.threads, held) < threadsOfRequest)
        continue;
      if (std::uint32_t cap = mostRegisters(place, leavesRoom)) {
        candidates.push_back(capped(place, cap, candidates.size()));
        candidates.back().mustNotSpill = candidates.back().isForRoom = true;
      }
    }
    return candidates;
  }

  /// Whether the entry has no cap yet.
  static bool mayCap(const Place &place) {
    return !place.kernel->function->directive("maxnreg") &&
           !isCapped(place.variant->codings[place.index]);
  }

  Candidate capped(Place &place, std::uint32_t cap, std::size_t number) const {
    return capped(place, place.variant->codings[place.index], place.variant->entries[place.index],
                  cap, number);
  }
  Candidate capped(Place &place, std::string_view coding, const ptx::EditedText &text,
                   std::uint32_t cap, std::size_t number) const {
    std::string name = fmt::format("{}_{}", place.name, number);
    return {&place, withCap(coding, cap), name,
            ptx::withRegisterCap(job.module, renamed(text.str(), place.name, name), cap)};
  }

  /// Returns the largest register cap under which an SM holds as many blocks as of the user's
  /// kernel; 0 if registers are not the limit.
  std::uint32_t capFor(const Place &place) const {
    std::uint32_t wanted = blocks(place, place.user);
    return mostRegisters(place, [&](std::uint32_t cap) {
      return blocksPerSm(arch, place.threads, cap, place.best.sharedBytes) >= wanted;
    });
  }

  /// Returns the largest cap that `fit` accepts, in whole steps and at most the registers of the
  /// best coding so far; 0 if none fits.
  template <class Fit> static std::uint32_t mostRegisters(const Place &place, Fit fit) {
    for (std::uint32_t cap = place.best.registers / registerStep * registerStep;
         cap >= fewestRegisters; cap -= registerStep)
      if (fit(cap))
        return cap;
    return 0;
  }

  /// Assembles the candidates in one module without the user's kernels, and takes the better ones.
  void tryAll(std::vector<Candidate> candidates) {
    if (candidates.empty())
      return;
    std::vector<ptx::Variant> variants(candidates.size());
    std::vector<const ptx::Variant *> pointers;
    for (std::size_t i = 0; i != candidates.size(); ++i) {
      variants[i].entries.emplace_back(candidates[i].text);
      variants[i].clones = candidates[i].place->variant->clones;
      pointers.push_back(&variants[i]);
    }
    auto assembled = assembler.assemble(ptx::textWith(job.module, pointers, false));
    if (!assembled)
      return; // keep the current codings, which do assemble
    for (Candidate &candidate : candidates)
      if (auto usage = assembled->entries.find(candidate.name); usage != assembled->entries.end())
        if (isBetter(candidate, usage->second))
          take(candidate, usage->second);
  }

  bool isBetter(const Candidate &candidate, const EntryUsage &usage) const {
    if (candidate.isReset)
      return true;
    const Place &place = *candidate.place;
    std::uint32_t wanted = blocks(place, place.user);
    std::uint32_t now = std::min(wanted, blocks(place, place.best));
    std::uint32_t then = std::min(wanted, blocks(place, usage));
    if (usage.spillBytes > std::max(place.best.spillBytes, place.user.spillBytes + maxSpillBytes))
      return false;
    if (candidate.mustNotSpill && usage.spillBytes > place.best.spillBytes)
      return false;
    if (now != then)
      return then > now;
    if (candidate.isForRoom)
      return blocks(place, usage) == blocks(place, place.best);
    if (candidate.isForSpills)
      return usage.spillBytes <= place.user.spillBytes && place.best.spillBytes > usage.spillBytes;
    if (candidate.onlyForOccupancy)
      return false;
    return cost(place, usage) < cost(place, place.best);
  }

  /// Returns the registers, in steps that count, and the spilled bytes. Registers up to the user's
  /// number cost nothing. Earlier codings cost less time: for a guard the difference is a round
  /// trip to the L2, so only whole allocation steps count there.
  static std::pair<std::uint32_t, std::uint32_t> cost(const Place &place, const EntryUsage &usage) {
    std::uint32_t step = place.variant->verdict.kind == Kind::Guard ? registerStep : 1;
    bool toleratesFew = place.variant->verdict.kind == Kind::Checkpoint;
    std::uint32_t registers = std::max(usage.registers, place.user.registers);
    std::uint32_t spills = toleratesFew && usage.spillBytes <= fewSpillBytes ? 0 : usage.spillBytes;
    return {(registers + step - 1) / step, spills};
  }

  /// Whether another coding is worth a try. A kernel that does not declare its block size may be
  /// launched with larger blocks than the assumed size.
  bool mayBeCheaper(const Place &place) const {
    if (losesOccupancy(place) || spillsMuch(place))
      return true;
    return !declaresThreads(*place.kernel->function) &&
           (losesOccupancy(place, 512) || losesOccupancy(place, 1024));
  }

  void take(Candidate &candidate, const EntryUsage &usage) {
    Place &place = *candidate.place;
    place.variant->entries[place.index] =
        renamed(std::move(candidate.text), candidate.name, place.name);
    place.variant->codings[place.index] = std::move(candidate.coding);
    place.best = usage;
    changed = true;
  }

  const ModuleAssembler &assembler;
  Job &job;
  std::uint32_t arch;
  std::vector<Place> places;
  std::vector<Uncapped> cappedAhead;
  bool changed = false;
};

/// Returns the cap for an entry of `kernel`, which itself takes `users` registers; 0 for none.
std::uint32_t capAheadOf(const ptx::RewrittenKernel &kernel, std::uint32_t arch,
                         std::uint32_t users) {
  const ptx::Function &function = *kernel.function;
  if (function.directive("maxnreg"))
    return 0;
  auto blocks = [&](std::uint32_t registers) {
    return blocksPerSm(arch, threadsOf(function), registers, kernel.layout.staticSharedBytes);
  };
  std::uint32_t cap =
      std::max((users + registerStep - 1) / registerStep * registerStep, fewestRegisters);
  while (cap < users + registersAdded && blocks(cap + registerStep) >= blocks(users))
    cap += registerStep;
  return cap < users + registersAdded && cap < mostRegistersOfThread ? cap : 0;
}

} // namespace

std::vector<Uncapped> capAhead(Job &job, const Architecture &arch) {
  std::vector<Uncapped> uncapped;
  auto users = job.usersRegisters.find(arch);
  if (users == job.usersRegisters.end())
    return uncapped;
  for (ptx::RewrittenKernel &kernel : job.kernels) {
    auto known = users->second.find(kernel.layout.name);
    std::uint32_t cap =
        known == users->second.end() ? 0 : capAheadOf(kernel, arch.number, known->second);
    if (cap == 0)
      continue;
    for (ptx::Variant &variant : kernel.variants) {
      if (variant.verdict.kind == Kind::Pause)
        continue; // a request's block should fit beside it, which may take a lower cap
      for (std::size_t i = 0; i != variant.entries.size(); ++i) {
        std::string &coding = variant.codings[i];
        if (isCapped(coding))
          continue; // capped before another variant was taken out
        uncapped.push_back({bundle::entryName(kernel.layout.name, variant.verdict.kind, i == 1),
                            variant.entries[i], coding});
        variant.entries[i] = ptx::withRegisterCap(job.module, variant.entries[i].str(), cap);
        coding = withCap(coding, cap);
      }
    }
  }
  return uncapped;
}

bool chooseCodings(const ModuleAssembler &assembler, Job &job, const Assembled &assembled,
                   std::vector<Uncapped> capped) {
  return Chooser(assembler, job, assembled, std::move(capped)).run();
}

} // namespace tally::ptxopt
