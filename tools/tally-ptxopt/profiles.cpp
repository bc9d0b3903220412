#include "profiles.h"

#include "combine.h"
#include "files.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tally::ptxopt {
namespace {

constexpr ptx::KindSet betweenBlocks = ptx::onSlice | ptx::onGuard | ptx::onPersistent;

bool isEmitted(const ptx::Variant &variant) { return variant.verdict.status == Status::Emitted; }

ptx::KindSet emittedOf(const ptx::RewrittenKernel &kernel) {
  ptx::KindSet kinds = 0;
  for (const ptx::Variant &variant : kernel.variants)
    if (isEmitted(variant))
      kinds |= ptx::setOf(variant.verdict.kind);
  return kinds;
}

/// Returns the kinds that launches with this result want, without the checkpoint for long blocks.
ptx::KindSet kindsOf(const bundle::ProfileFound &found) {
  // Launches of kinds that stop inside of blocks begin as persistent while it is unknown whether
  // they have to stop inside, and stay persistent where blocks cannot be saved.
  if (found.isTried() && found.kind)
    return ptx::setOf(*found.kind) |
           (stopsInsideBlocks(*found.kind) ? ptx::onPersistent : ptx::KindSet{0});
  if (found.isTried())
    return 0; // the user's kernel as it is
  return ptx::onPersistent | (found.block > bundle::shortBlock ? ptx::KindSet{0} : ptx::onGuard);
}

} // namespace

Profiles::Profiles(const bundle::ProfileEntries &entries) { add(entries); }

Result<std::shared_ptr<const Profiles>> Profiles::read(const std::vector<std::string> &paths) {
  auto all = std::make_shared<Profiles>(bundle::ProfileEntries());
  for (const std::string &path : paths) {
    auto text = readInput(path);
    if (!text)
      return Error{"--profile: " + text.error().message};
    auto profile = bundle::parseProfile(*text);
    if (!profile)
      return Error{"--profile: " + path + ": " + profile.error().message};
    all->add(profile->entries);
  }
  return std::shared_ptr<const Profiles>(std::move(all));
}

void Profiles::add(const bundle::ProfileEntries &entries) {
  for (const auto &[key, found] : entries) {
    Launches &launches = kernels[key.kernel][key.shape];
    launches.kinds |= kindsOf(found);
    launches.block = std::max(launches.block, found.block);
  }
}

std::optional<ptx::KindSet> Profiles::wantedOf(std::string_view kernel) const {
  auto shapes = kernels.find(kernel);
  if (shapes == kernels.end())
    return std::nullopt;
  ptx::KindSet kinds = 0;
  for (const auto &[shape, launches] : shapes->second) {
    kinds |= launches.kinds;
    if (launches.block.count() == 0 || launches.block > bundle::shortBlock)
      kinds |= ptx::onCheckpoint;
  }
  // Adds the cheapest kind for shapes that no run has shown.
  return kinds & betweenBlocks ? kinds : static_cast<ptx::KindSet>(kinds | ptx::onGuard);
}

ptx::KindSet Profiles::wantedOfAny() const {
  ptx::KindSet kinds = 0;
  for (const auto &[kernel, shapes] : kernels)
    kinds |= *wantedOf(kernel);
  return kinds;
}

void Profiles::leaveOut(Job &job, bool byDefault) const {
  for (ptx::RewrittenKernel &kernel : job.kernels) {
    std::optional<ptx::KindSet> wanted = wantedOf(kernel.layout.name);
    if (!wanted) {
      if (byDefault)
        llvm::erase_if(kernel.variants, [](const ptx::Variant &variant) {
          return variant.verdict.kind == Kind::Pause;
        });
      continue;
    }
    ptx::KindSet kept = *wanted;
    if (!(kept & emittedOf(kernel) & betweenBlocks))
      kept |= betweenBlocks;
    for (ptx::Variant &variant : kernel.variants)
      if (Kind kind = variant.verdict.kind; isEmitted(variant) && !(kept & ptx::setOf(kind)))
        withdraw(variant, {kind, Status::Refused, std::string(leftOutByProfile),
                           "by the profile no launch wants this kind",
                           job.module.lineOf(kernel.function->name)});
  }
}

} // namespace tally::ptxopt
