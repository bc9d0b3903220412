// A kernel of a loaded module as the device knows it, and the simple rule that picks its kind.
#ifndef TALLY_LIB_RUNTIME_LOADED_KERNEL_H
#define TALLY_LIB_RUNTIME_LOADED_KERNEL_H

#include "duration_estimate.h"

#include "tally/bundle/bundle.h"
#include "tally/runtime/control_word.h"
#include "tally/runtime/device.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>

namespace tally::runtime {

/// How launches of one shape are made: through `kind`, or, without one, by the user's kernel whole.
struct LaunchPlan {
  std::optional<Kind> kind;
  std::uint32_t sliceBlocks = 1;
  std::uint32_t workers = 1;
  DurationEstimate duration; ///< of launches made so
};

/// Immutable but for the plans, which belong to the dispatcher's thread.
class LoadedKernel {
public:
  struct Variant {
    FunctionId entry{}, resume{}; ///< resume: the guard's where it has one
    std::uint32_t maxThreadsPerBlock = 0, staticSharedBytes = 0; ///< of the tighter entry
  };

  /// Looks up the user's kernel and every emitted variant.
  static Result<std::unique_ptr<LoadedKernel>> find(FunctionDevice &device, ModuleId module,
                                                    const bundle::Kernel &kernel);

  const bundle::Kernel &facts() const { return kernel; }
  FunctionId userFunction() const { return user; }
  const Variant &variant(Kind kind) const { return *variants[static_cast<std::size_t>(kind)]; }

  /// Whether the device can take a launch of the user's kernel with this shape and these
  /// parameters; the error says what is wrong with them.
  Result<void> check(const FunctionDevice &device, const LaunchShape &shape,
                     std::size_t argumentBytes) const;

  /// The plan for this shape, kept from its first use. `kinds` in the order of preference; a guard
  /// list may have `maxListBytes`.
  Result<std::shared_ptr<LaunchPlan>> plan(FunctionDevice &device, const LaunchShape &shape,
                                           std::span<const Kind> kinds, std::uint64_t maxListBytes);

  /// Tells launch shapes apart.
  using ShapeKey = std::array<std::uint32_t, 10>;
  static ShapeKey keyOf(const LaunchShape &shape) {
    return {
        shape.grid.x,  shape.grid.y,    shape.grid.z,    shape.block.x,   shape.block.y,
        shape.block.z, shape.cluster.x, shape.cluster.y, shape.cluster.z, shape.dynamicSharedBytes};
  }

private:
  Result<void> checkCluster(const LaunchShape &shape) const;
  bool fits(const FunctionDevice &device, const Variant &variant, const LaunchShape &shape) const;
  Result<LaunchPlan> choose(FunctionDevice &device, const LaunchShape &shape,
                            std::span<const Kind> kinds, std::uint64_t maxListBytes) const;

  bundle::Kernel kernel;
  FunctionId user{};
  FunctionAttributes userAttributes;
  std::array<std::optional<Variant>, allKinds.size()> variants;
  std::map<ShapeKey, std::shared_ptr<LaunchPlan>> plans;
};

} // namespace tally::runtime

#endif
