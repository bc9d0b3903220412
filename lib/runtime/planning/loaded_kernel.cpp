#include "planning/loaded_kernel.h"

#include "planning/residency.h"

#include "tally/runtime/variant_launch.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tally::runtime {

namespace {

/// Waves of one slice: a request waits for the rest of two slices, and short slices cost
/// throughput.
constexpr std::uint32_t wavesPerSlice = 2;
/// Most plans kept per kernel, so that a kernel with ever new shapes does not grow without bound.
constexpr std::size_t maxPlans = 4096;
/// Most launches of a kernel that are set apart from their shapes.
constexpr std::size_t maxApart = 256;
/// Arguments of 8 bytes from here on are addresses, not sizes.
constexpr std::uint64_t leastAddress = std::uint64_t{1} << 32;
/// Time in which a wave of blocks leaves when it finds a request: on an H200 0.9 to 1.5 us, 3 us if
/// the blocks agree at their own barrier (docs/history/results-2026-11.md).
constexpr Nanoseconds guardLeaves{1700};
/// Most blocks of a cluster, on devices that allow more than the portable 8 (CUDA C++ Programming
/// Guide, "Thread Block Clusters").
constexpr std::uint32_t maxClusterBlocks = 16;

std::string text(const Dim3 &extent) {
  return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" + std::to_string(extent.z);
}

/// Time to write `bytes` to device memory.
Nanoseconds timeToWrite(std::uint64_t bytes, const DeviceInfo &device) {
  constexpr std::uint32_t usual = 1000; // bytes per nanosecond where the device does not tell
  return Nanoseconds(
      static_cast<std::int64_t>(bytes / (device.bandwidth == 0 ? usual : device.bandwidth)));
}

/// Whether a guard's blocks that have not begun leave so soon, on `part` of the SMs, that the loop
/// and the counter of kind persistent, which cost each launch 2 us, gain nothing.
bool drainsSoon(const LaunchPlan &guard, const PlanRules &rules, double part = 1) {
  double drain = static_cast<double>(guard.waves * guardLeaves.count()) / part;
  return !rules.limitsSms &&
         drain <= rules.boundsToDrain * static_cast<double>(rules.bound.count());
}

/// The smaller of two limits of which 0 means "not known".
std::uint32_t tighter(std::uint32_t a, std::uint32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

} // namespace

Result<std::unique_ptr<LoadedKernel>> LoadedKernel::find(FunctionDevice &device, ModuleId module,
                                                         const bundle::Kernel &kernel,
                                                         std::uint64_t moduleHash) {
  auto loaded = std::make_unique<LoadedKernel>();
  loaded->moduleHash = moduleHash;
  loaded->kernel = kernel;
  Result<FunctionId> user = device.function(module, kernel.name);
  if (!user)
    return user.error();
  Result<FunctionAttributes> attributes = device.attributes(*user);
  if (!attributes)
    return attributes.error();
  loaded->user = *user;
  loaded->userAttributes = *attributes;
  for (Kind kind : allKinds) {
    if (!kernel.emitted(kind))
      continue;
    Variant variant;
    for (bool resume : {false, true}) {
      if (resume && (kind != Kind::Guard || kernel.guardTakesTickets()))
        continue;
      Result<FunctionId> entry =
          device.function(module, bundle::entryName(kernel.name, kind, resume));
      if (!entry)
        return entry.error();
      Result<FunctionAttributes> facts = device.attributes(*entry);
      if (!facts)
        return facts.error();
      (resume ? variant.resume : variant.entry) = *entry;
      variant.maxThreadsPerBlock = tighter(variant.maxThreadsPerBlock, facts->maxThreadsPerBlock);
      variant.staticSharedBytes = std::max(variant.staticSharedBytes, facts->staticSharedBytes);
      variant.registers = std::max(variant.registers, facts->registers);
    }
    loaded->variants[static_cast<std::size_t>(kind)] = variant;
  }
  return loaded;
}

Result<std::unique_ptr<LoadedKernel>>
LoadedKernel::adopt(FunctionDevice &device, const AdoptedFunction &function, std::string name) {
  auto loaded = std::make_unique<LoadedKernel>();
  loaded->adopted = true;
  loaded->kernel.name = std::move(name);
  loaded->kernel.requiredCluster = function.requiredCluster;
  loaded->parametersAreKnown = function.parameters.has_value();
  if (function.parameters)
    loaded->kernel.parameters = *function.parameters;
  for (const bundle::Parameter &each : loaded->kernel.parameters)
    loaded->kernel.parameterBytes =
        std::max(loaded->kernel.parameterBytes, each.offset + each.size);
  Result<FunctionAttributes> attributes = device.attributes(function.id);
  if (!attributes)
    return attributes.error();
  loaded->user = function.id;
  loaded->userAttributes = *attributes;
  return loaded;
}

Result<void> LoadedKernel::check(const FunctionDevice &device, const LaunchShape &shape,
                                 std::size_t argumentBytes) const {
  auto wrong = [&](const std::string &what) { return Error{kernel.name + ": " + what}; };
  // CUDA C++ Programming Guide, "Compute Capabilities": the limits of every architecture.
  if (shape.grid.count() == 0 || shape.grid.x > 0x7fffffff || shape.grid.y > 65535 ||
      shape.grid.z > 65535)
    return wrong("a grid of " + text(shape.grid) + " blocks is outside of the device's limits");
  std::uint32_t threads = userAttributes.maxThreadsPerBlock;
  if (shape.block.count() == 0 || shape.block.count() > (threads == 0 ? 1024 : threads) ||
      shape.block.z > 64)
    return wrong("a block of " + text(shape.block) + " threads is outside of this kernel's limits");
  if (std::uint64_t{userAttributes.staticSharedBytes} + shape.dynamicSharedBytes >
      device.info().maxSharedBytesPerBlock)
    return wrong(std::to_string(userAttributes.staticSharedBytes) + " static and " +
                 std::to_string(shape.dynamicSharedBytes) +
                 " dynamic bytes of shared memory are more than a block may have");
  if (Result<void> fine = checkCluster(shape); !fine)
    return fine;
  if (!parametersAreKnown)
    return {};
  std::uint32_t expected = 0;
  for (const bundle::Parameter &each : kernel.parameters)
    expected = std::max(expected, each.offset + each.size);
  if (argumentBytes != expected && argumentBytes != kernel.parameterBytes)
    return wrong("takes " + std::to_string(expected) + " bytes of arguments, got " +
                 std::to_string(argumentBytes));
  return {};
}

Result<void> LoadedKernel::checkCluster(const LaunchShape &shape) const {
  auto wrong = [&](const std::string &what) { return Error{kernel.name + ": " + what}; };
  constexpr Dim3 none{0, 0, 0};
  const Dim3 &required = kernel.requiredCluster;
  Dim3 cluster = shape.cluster == none ? required : shape.cluster;
  if (cluster == none)
    return {};
  if (!(required == none || cluster == required))
    return wrong("clusters of " + text(cluster) + " blocks where the kernel demands " +
                 text(required));
  // Check each extent first: their product may overflow.
  if (cluster.count() == 0 || cluster.x > maxClusterBlocks || cluster.y > maxClusterBlocks ||
      cluster.z > maxClusterBlocks || cluster.count() > maxClusterBlocks)
    return wrong("clusters of " + text(cluster) + " blocks are none that a device takes");
  if (shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 ||
      shape.grid.z % cluster.z != 0)
    return wrong("a grid of " + text(shape.grid) + " blocks is no whole number of clusters of " +
                 text(cluster));
  return {};
}

bool LoadedKernel::fits(const FunctionDevice &device, const Variant &variant,
                        const LaunchShape &shape) const {
  return (variant.maxThreadsPerBlock == 0 || shape.block.count() <= variant.maxThreadsPerBlock) &&
         std::uint64_t{variant.staticSharedBytes} + shape.dynamicSharedBytes <=
             device.info().maxSharedBytesPerBlock;
}

bool LoadedKernel::guardFits(const FunctionDevice &device, const LaunchShape &shape,
                             const PlanRules &rules) const {
  const std::optional<Variant> &guard = variants[static_cast<std::size_t>(Kind::Guard)];
  std::uint64_t blocks = shape.grid.count();
  return contains(rules.kinds, Kind::Guard) && guard && fits(device, *guard, shape) &&
         blocks <= VariantLaunch::maxBlocks(Kind::Guard, 1) &&
         (kernel.guardTakesTickets() || blocks * sizeof(std::uint32_t) <= rules.maxListBytes);
}

/// Padding of shared memory so that an SM, which could hold `most` workers, holds exactly
/// `resident`. Workers go to any SM with space when they start. Without padding some SMs would get
/// too many while a request has blocks or other blocks are about to end, and leave no headroom.
Result<std::uint32_t> LoadedKernel::paddingOf(const Variant &pause, FunctionDevice &device,
                                              const LaunchShape &shape, std::uint32_t resident,
                                              std::uint32_t most, const Footprint &headroom) const {
  if (resident == 0 || resident == most || kernel.readsSharedSize)
    return 0u;
  std::uint32_t padding =
      paddingFor(device.info(), pause.attributes(), shape, resident, most, headroom);
  if (padding == 0)
    return 0u;
  Result<std::uint32_t> holds =
      device.residentBlocksPerSm(pause.entry, shape.block, shape.dynamicSharedBytes + padding);
  if (!holds)
    return holds.error();
  return *holds == resident ? padding : 0u;
}

/// The plan of a kind; nothing where the kind does not take launches of this shape.
Result<std::optional<LaunchPlan>> LoadedKernel::planOf(Kind kind, FunctionDevice &device,
                                                       const LaunchShape &shape,
                                                       const PlanRules &rules) const {
  const std::optional<Variant> &candidate = variants[static_cast<std::size_t>(kind)];
  std::optional<LaunchPlan> none;
  bool taken = candidate && (kind == Kind::Guard ? guardFits(device, shape, rules)
                                                 : fits(device, *candidate, shape));
  if (!taken)
    return none;
  Result<std::uint32_t> resident =
      device.residentBlocksPerSm(candidate->entry, shape.block, shape.dynamicSharedBytes);
  if (!resident)
    return resident.error();
  if (candidate->resume != FunctionId{}) {
    // This call also raises the entry's limit of dynamic shared memory, on devices that have one.
    Result<std::uint32_t> resumed =
        device.residentBlocksPerSm(candidate->resume, shape.block, shape.dynamicSharedBytes);
    if (!resumed)
      return resumed.error();
    if (*resumed == 0)
      return none;
  }
  FunctionAttributes facts = candidate->attributes();
  LaunchShape padded = shape;
  if (kind == Kind::Pause) {
    std::uint32_t most = *resident;
    *resident = besideHeadroom(device.info(), facts, shape, most, rules.headroom);
    Result<std::uint32_t> padding =
        paddingOf(*candidate, device, shape, *resident, most, rules.headroom);
    if (!padding)
      return padding.error();
    padded.dynamicSharedBytes += *padding;
  }
  std::uint64_t blocks = shape.grid.count();
  // Saturating: maxBlocks() below refuses more blocks than the counter takes.
  auto wave = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::uint64_t{*resident} * device.info().smCount, 0x0fffffff));
  LaunchPlan plan;
  plan.kind = kind;
  plan.waves = wave == 0 ? 1 : (blocks + wave - 1) / wave;
  plan.wave = std::max(wave, 1u);
  if (kind == Kind::Guard)
    return std::optional(plan);
  if (wave == 0)
    return none;
  plan.sliceBlocks = wave * wavesPerSlice;
  if (kind == Kind::Slice)
    return std::optional(plan);
  plan.workers = workersFor(kernel, shape, wave);
  plan.leaves = leftBy(device.info(), footprintOf(facts, padded, *resident));
  plan.padding = padded.dynamicSharedBytes - shape.dynamicSharedBytes;
  // A block could not be saved together with a part of a warp that has left it.
  if (kind == Kind::Checkpoint) {
    plan.saveStride = saveStrideOf(kernel, shape);
    plan.saveBytes = plan.saveStride * std::min<std::uint64_t>(blocks, wave);
    plan.saveTime = timeToWrite(plan.saveBytes, device.info());
    if (kernel.maySpend(shape.block.x) || plan.workers > rules.maxSavedBlocks ||
        plan.saveStride > ~std::uint32_t{0} || plan.saveBytes > rules.maxSaveBytes ||
        blocks > VariantLaunch::maxBlocks(kind, plan.workers))
      return none;
    return std::optional(plan);
  }
  // With a worker for each block the loop and its counter gain nothing over the guard.
  if (blocks > VariantLaunch::maxBlocks(kind, plan.workers) ||
      (kind == Kind::Persistent && blocks <= plan.workers && guardFits(device, shape, rules)))
    return none;
  // As many workers as blocks leave no headroom.
  if (kind == Kind::Pause && kernel.maySpend(shape.block.x) && blocks > wave)
    return none;
  return std::optional(plan);
}

Result<std::unique_ptr<KindChoice>> LoadedKernel::makeProfile(FunctionDevice &device,
                                                              const LaunchShape &shape,
                                                              const PlanRules &rules) const {
  std::vector<LaunchPlan> ways;
  for (Kind kind : kernel.variantsTake(shape.grid) ? rules.kinds : std::span<const Kind>()) {
    // Slices are the last resort: each slice ends its batch.
    if (kind == Kind::Slice && !ways.empty())
      continue;
    Result<std::optional<LaunchPlan>> plan = planOf(kind, device, shape, rules);
    if (!plan)
      return plan.error();
    if (*plan)
      ways.push_back(**plan);
  }
  if (ways.empty() || ways[0].kind != Kind::Slice)
    ways.push_back({});
  bool prefersGuard = std::any_of(ways.begin(), ways.end(), [&](const LaunchPlan &way) {
    return way.kind == Kind::Guard && drainsSoon(way, rules);
  });
  auto profile = std::make_unique<KindChoice>(std::move(ways));
  if (prefersGuard)
    profile->preferGuard();
  if (rules.measures && rules.profiles)
    if (auto found = rules.profiles->find({moduleHash, kernel.name, keyOf(shape)})) {
      if (found->isTried())
        profile->settle(found->kind, found->high);
      if (found->block.count() != 0)
        profile->assumeBlocks(found->block);
    }
  return profile;
}

std::uint64_t LoadedKernel::hashOfSizes(std::span<const std::byte> arguments) const {
  static thread_local std::string sizes; // reused, since each launch asks
  sizes.clear();
  for (const bundle::Parameter &each : kernel.parameters) {
    // check() has seen that the launch has all parameters.
    std::span<const std::byte> bytes = arguments.subspan(each.offset, each.size);
    std::uint64_t value = 0;
    if (bytes.size() == sizeof value)
      std::memcpy(&value, bytes.data(), sizeof value);
    if (value < leastAddress)
      sizes.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  return std::max<std::uint64_t>(bundle::hashOf(sizes), 1);
}

void LoadedKernel::setApart(const LaunchShape &shape, std::span<const std::byte> arguments) {
  if (apart.size() >= maxApart)
    apart.clear();
  apart.emplace(keyOf(shape), hashOfSizes(arguments));
}

LoadedKernel::PlanKey LoadedKernel::planKeyOf(const LaunchShape &shape,
                                              std::span<const std::byte> arguments) const {
  PlanKey usual(keyOf(shape), 0);
  auto first = apart.lower_bound(usual);
  if (first == apart.end() || first->first != usual.first)
    return usual;
  PlanKey key(usual.first, hashOfSizes(arguments));
  return apart.contains(key) ? key : usual;
}

Result<std::shared_ptr<LaunchPlan>> LoadedKernel::plan(FunctionDevice &device,
                                                       const LaunchShape &shape,
                                                       std::span<const std::byte> arguments,
                                                       const PlanRules &rules) {
  PlanKey key = planKeyOf(shape, arguments);
  PlanRules used = rules;
  // The store keeps results only by shape.
  if (key.second != 0)
    used.profiles = nullptr;
  return plan(device, shape, key, used);
}

std::shared_ptr<LaunchPlan> LoadedKernel::planOnPart(double part,
                                                     const std::shared_ptr<LaunchPlan> &guard,
                                                     const LaunchShape &shape,
                                                     std::span<const std::byte> arguments,
                                                     const PlanRules &rules) const {
  if (drainsSoon(*guard, rules, part))
    return guard;
  auto known = plans.find(planKeyOf(shape, arguments));
  if (known == plans.end())
    return guard;
  std::shared_ptr<LaunchPlan> persistent = known->second.profile->way(Kind::Persistent);
  if (!persistent)
    return guard;
  // Launches beside requests are not measured.
  if (!persistent->duration.known() && guard->duration.known())
    persistent->duration.add(guard->duration.mean());
  return persistent;
}

Result<std::shared_ptr<LaunchPlan>> LoadedKernel::plan(FunctionDevice &device,
                                                       const LaunchShape &shape, const PlanKey &key,
                                                       const PlanRules &rules) {
  auto known = plans.find(key);
  if (known == plans.end()) {
    Result<std::unique_ptr<KindChoice>> made = makeProfile(device, shape, rules);
    if (!made)
      return made.error();
    if (plans.size() >= maxPlans)
      plans.clear();
    known = plans.emplace(key, Known{std::move(*made), {}, rules.headroomVersion}).first;
    known->second.kept = foundOf(*known->second.profile);
  }
  Result<bool> leaves = leaveHeadroom(known->second, device, shape, rules);
  if (!leaves)
    return leaves.error();
  if (!*leaves) {
    plans.erase(known);
    return plan(device, shape, key, rules);
  }
  KindChoice &profile = *known->second.profile;
  Nanoseconds assumed = newestBlockTime;
  if (rules.took.count() != 0) {
    assumed = profile.blockOf(rules.took);
    profile.addNews(rules.took);
  }
  std::shared_ptr<LaunchPlan> picked = profile.pick(rules.bound, rules.measures, assumed);
  // A save area of this size was allowed when it was planned, but is not any more.
  if (picked->saveBytes > rules.maxSaveBytes) {
    plans.erase(known);
    return plan(device, shape, key, rules);
  }
  if (profile.blockTime().count() != 0)
    newestBlockTime = profile.blockTime();
  if (picked->kind == Kind::Slice)
    fitSlices(*picked, rules.bound, picked->wave);
  if (rules.profiles)
    keep(known->second, {moduleHash, kernel.name, key.first}, *rules.profiles);
  return picked;
}

/// If the headroom has changed, gives launches of kind pause the workers that leave it. False: the
/// kind no longer takes these launches, or takes them only now.
Result<bool> LoadedKernel::leaveHeadroom(Known &known, FunctionDevice &device,
                                         const LaunchShape &shape, const PlanRules &rules) const {
  if (known.headroomVersion == rules.headroomVersion)
    return true;
  known.headroomVersion = rules.headroomVersion;
  if (!contains(rules.kinds, Kind::Pause) || !kernel.variantsTake(shape.grid))
    return true;
  Result<std::optional<LaunchPlan>> planned = planOf(Kind::Pause, device, shape, rules);
  if (!planned)
    return planned.error();
  if (planned->has_value() != known.profile->has(Kind::Pause))
    return false;
  if (*planned)
    known.profile->changeWorkers(**planned);
  return true;
}

ProfileStore::Found LoadedKernel::foundOf(const KindChoice &profile) {
  ProfileStore::Found found;
  found.block = profile.blockTime();
  if (const LaunchPlan *best = profile.best()) {
    found.kind = best->kind;
    found.high = std::max(best->duration.high(), Nanoseconds(1));
  }
  return found;
}

/// Puts the results into the store if they are new or clearly different.
void LoadedKernel::keep(Known &entry, const ProfileStore::Key &key, ProfileStore &store) {
  ProfileStore::Found now = foundOf(*entry.profile), &kept = entry.kept;
  bool isOther = now.block > 2 * kept.block || 2 * now.block < kept.block;
  if (now.isTried() == kept.isTried() && !isOther)
    return;
  store.put(key, now);
  kept = now;
}

} // namespace tally::runtime
