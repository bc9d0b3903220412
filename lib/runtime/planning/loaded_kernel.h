// A kernel of a loaded module as the device knows it, and the ways to launch it.
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

/// How plans are made.
struct PlanRules {
  /// In the order of preference. Those that stop inside of blocks, where they stand behind others:
  /// for blocks that are measured to be longer than the bound.
  std::span<const Kind> kinds;
  std::uint64_t maxListBytes = 0;   ///< that a guard's list may have
  std::uint64_t maxSaveBytes = 0;   ///< that the blocks of a launch may be saved in
  std::uint32_t maxSavedBlocks = 0; ///< that a launch may save
  Nanoseconds bound{0};
  /// A guard's blocks that have not begun may take so many bounds to leave: a request's own go
  /// before them.
  double boundsToDrain = 3;
  Footprint headroom;                ///< that pausing blocks leave of an SM to others
  std::uint64_t headroomVersion = 0; ///< Headroom::version(), read before it
  bool limitsSms = true;             ///< whether launches may have to do with fewer SMs
  bool measures = false;             ///< whether more than the first kind that fits is tried
  ProfileStore *profiles = nullptr;  ///< where what was found is kept; or none
  Nanoseconds took{0};               ///< Operation::took
};

/// Immutable but for the plans, which belong to the dispatcher's thread.
class LoadedKernel {
public:
  struct Variant {
    FunctionId entry{}, resume{}; ///< resume: the guard's where it has one
    std::uint32_t maxThreadsPerBlock = 0, staticSharedBytes = 0; ///< of the tighter entry
    std::uint32_t registers = 0;                                 ///< per thread, likewise

    FunctionAttributes attributes() const {
      return {registers, staticSharedBytes, maxThreadsPerBlock};
    }
  };

  /// Looks up the user's kernel and every emitted variant.
  /// `moduleHash`: the bundle's.
  static Result<std::unique_ptr<LoadedKernel>> find(FunctionDevice &device, ModuleId module,
                                                    const bundle::Kernel &kernel,
                                                    std::uint64_t moduleHash = 0);

  /// A function that the program has loaded itself: there is the user's kernel only.
  static Result<std::unique_ptr<LoadedKernel>>
  adopt(FunctionDevice &device, const AdoptedFunction &function, std::string name);
  bool isAdopted() const { return adopted; }

  const bundle::Kernel &facts() const { return kernel; }
  FunctionId userFunction() const { return user; }
  /// Of the user's kernel.
  const FunctionAttributes &attributes() const { return userAttributes; }
  const Variant &variant(Kind kind) const { return *variants[static_cast<std::size_t>(kind)]; }
  /// The user's parameter space for a launch that was checked. Bytes at its end that the arguments
  /// do not have are zero.
  std::size_t parameterBytes(std::size_t argumentBytes) const {
    return std::max<std::size_t>(kernel.parameterBytes, argumentBytes);
  }

  /// Whether the device can take a launch of the user's kernel with this shape and these
  /// parameters; the error says what is wrong with them.
  Result<void> check(const FunctionDevice &device, const LaunchShape &shape,
                     std::size_t argumentBytes) const;

  /// The plan for the next launch of this shape. `arguments`: as the user's kernel gets them.
  Result<std::shared_ptr<LaunchPlan>> plan(FunctionDevice &device, const LaunchShape &shape,
                                           std::span<const std::byte> arguments,
                                           const PlanRules &rules);
  /// A launch was seen to take much longer than what its shape is known for: from now on those of
  /// its sizes are measured and planned by themselves. Sizes: its arguments without the addresses.
  void setApart(const LaunchShape &shape, std::span<const std::byte> arguments);

  /// Tells launch shapes apart.
  using ShapeKey = std::array<std::uint32_t, 10>;
  static ShapeKey keyOf(const LaunchShape &shape) {
    return {
        shape.grid.x,  shape.grid.y,    shape.grid.z,    shape.block.x,   shape.block.y,
        shape.block.z, shape.cluster.x, shape.cluster.y, shape.cluster.z, shape.dynamicSharedBytes};
  }

private:
  struct Known {
    std::unique_ptr<KindChoice> profile;
    ProfileStore::Found kept;          ///< of what was found, what is in the store
    std::uint64_t headroomVersion = 0; ///< of the room that workers of pause leave
  };
  /// The shape, and of launches that are apart a hash of their sizes; else 0.
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
  /// Of the shape that was launched last and is known: what one that is not is taken to be like.
  Nanoseconds newestBlockTime{0};
};

} // namespace tally::runtime

#endif
