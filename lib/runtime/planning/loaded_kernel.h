// A kernel of a loaded module with its functions on the device, and the ways to launch it.
#ifndef TALLY_LIB_RUNTIME_PLANNING_LOADED_KERNEL_H
#define TALLY_LIB_RUNTIME_PLANNING_LOADED_KERNEL_H

#include "planning/kind_choice.h"
#include "planning/profile_store.h"
#include "planning/residency.h"

#include "tally/bundle/bundle.h"
#include "tally/runtime/control_word.h"
#include "tally/runtime/device.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace tally::runtime {

/// Rules by which plans are made.
struct PlanRules {
  /// In the order of preference. Kinds that stop inside blocks, if they come after other kinds, are
  /// for blocks that are measured to be longer than the bound.
  std::span<const Kind> kinds;
  std::uint64_t maxListBytes = 0;   ///< limit of a guard's list
  std::uint64_t maxSaveBytes = 0;   ///< limit of the memory for a launch's saved blocks
  std::uint32_t maxSavedBlocks = 0; ///< most blocks that a launch may save
  Nanoseconds bound{0};
  /// Blocks of a guard that have not begun may take this many bounds to leave: a request's blocks
  /// go before them.
  double boundsToDrain = 3;
  Footprint headroom;                ///< resources of an SM that pausing blocks leave free
  std::uint64_t headroomVersion = 0; ///< Headroom::version(), read before `headroom`
  bool limitsSms = true;             ///< whether the policy may confine launches to fewer SMs
  bool measures = false;             ///< whether to try more kinds than the first that fits
  ProfileStore *profiles = nullptr;  ///< store of the results; nullptr: none
  Nanoseconds took{0};               ///< Operation::took
};

/// Immutable except for the plans, which belong to the dispatcher's thread.
class LoadedKernel {
public:
  struct Variant {
    FunctionId entry{}, resume{}; ///< `resume`: the guard's resume entry, if it has one
    std::uint32_t maxThreadsPerBlock = 0, staticSharedBytes = 0; ///< values of the tighter entry
    std::uint32_t registers = 0; ///< per thread, of the tighter entry

    FunctionAttributes attributes() const {
      return {registers, staticSharedBytes, maxThreadsPerBlock};
    }
  };

  /// Looks up the user's kernel and every emitted variant. `moduleHash`: the bundle's hash.
  static Result<std::unique_ptr<LoadedKernel>> find(FunctionDevice &device, ModuleId module,
                                                    const bundle::Kernel &kernel,
                                                    std::uint64_t moduleHash = 0);

  /// Wraps a function that the program has loaded itself; it has no variants.
  static Result<std::unique_ptr<LoadedKernel>>
  adopt(FunctionDevice &device, const AdoptedFunction &function, std::string name);
  bool isAdopted() const { return adopted; }

  const bundle::Kernel &facts() const { return kernel; }
  FunctionId userFunction() const { return user; }
  /// Attributes of the user's kernel.
  const FunctionAttributes &attributes() const { return userAttributes; }
  const Variant &variant(Kind kind) const { return *variants[static_cast<std::size_t>(kind)]; }
  /// Bytes of the user's parameter space for a launch that was checked. Bytes beyond the arguments
  /// are zero.
  std::size_t parameterBytes(std::size_t argumentBytes) const {
    return std::max<std::size_t>(kernel.parameterBytes, argumentBytes);
  }

  /// Whether the device can take a launch of the user's kernel with this shape and these
  /// parameters; the error names the fault.
  Result<void> check(const FunctionDevice &device, const LaunchShape &shape,
                     std::size_t argumentBytes) const;

  /// The plan for the next launch of this shape. `arguments`: those of the user's kernel.
  Result<std::shared_ptr<LaunchPlan>> plan(FunctionDevice &device, const LaunchShape &shape,
                                           std::span<const std::byte> arguments,
                                           const PlanRules &rules);
  /// The plan for a launch on `part` (0 to 1) of the SMs, in place of `guard`, the result of
  /// plan(): kind persistent, if the guard's blocks would leave too slowly there.
  std::shared_ptr<LaunchPlan> planOnPart(double part, const std::shared_ptr<LaunchPlan> &guard,
                                         const LaunchShape &shape,
                                         std::span<const std::byte> arguments,
                                         const PlanRules &rules) const;
  /// Call this when a launch took much longer than other launches of its shape: from now on
  /// launches of its sizes are measured and planned by themselves. Sizes: the arguments without the
  /// addresses.
  void setApart(const LaunchShape &shape, std::span<const std::byte> arguments);

  /// Key of a launch shape.
  using ShapeKey = std::array<std::uint32_t, 10>;
  static ShapeKey keyOf(const LaunchShape &shape) {
    return {
        shape.grid.x,  shape.grid.y,    shape.grid.z,    shape.block.x,   shape.block.y,
        shape.block.z, shape.cluster.x, shape.cluster.y, shape.cluster.z, shape.dynamicSharedBytes};
  }

private:
  struct Known {
    std::unique_ptr<KindChoice> profile;
    ProfileStore::Found kept; ///< the results that are in the store
    /// Version of the headroom that the workers of kind pause leave.
    std::uint64_t headroomVersion = 0;
  };
  /// The shape, and a hash of the sizes of launches that are set apart; else 0.
  using PlanKey = std::pair<ShapeKey, std::uint64_t>;
  PlanKey planKeyOf(const LaunchShape &shape, std::span<const std::byte> arguments) const;
  std::uint64_t hashOfSizes(std::span<const std::byte> arguments) const;
  Result<std::shared_ptr<LaunchPlan>> plan(FunctionDevice &device, const LaunchShape &shape,
                                           const PlanKey &key, const PlanRules &rules);
  Result<void> checkCluster(const LaunchShape &shape) const;
  bool fits(const FunctionDevice &device, const Variant &variant, const LaunchShape &shape) const;
  bool guardFits(const FunctionDevice &device, const LaunchShape &shape,
                 const PlanRules &rules) const;
  Result<std::uint32_t> paddingOf(const Variant &pause, FunctionDevice &device,
                                  const LaunchShape &shape, std::uint32_t resident,
                                  std::uint32_t most, const Footprint &headroom) const;
  Result<std::optional<LaunchPlan>> planOf(Kind kind, FunctionDevice &device,
                                           const LaunchShape &shape, const PlanRules &rules) const;
  Result<std::unique_ptr<KindChoice>> makeProfile(FunctionDevice &device, const LaunchShape &shape,
                                                  const PlanRules &rules) const;
  Result<bool> leaveHeadroom(Known &known, FunctionDevice &device, const LaunchShape &shape,
                             const PlanRules &rules) const;

  bundle::Kernel kernel;
  bool adopted = false, parametersAreKnown = true;
  FunctionId user{};
  FunctionAttributes userAttributes;
  std::array<std::optional<Variant>, allKinds.size()> variants;
  static ProfileStore::Found foundOf(const KindChoice &profile);
  static void keep(Known &entry, const ProfileStore::Key &key, ProfileStore &store);

  std::uint64_t moduleHash = 0;
  std::map<PlanKey, Known> plans;
  std::set<PlanKey> apart;
  /// Block time of the newest shape with a known one; assumed for shapes without.
  Nanoseconds newestBlockTime{0};
};

} // namespace tally::runtime

#endif
