// A bundle: an assembled module with its variants, and the facts of its kernels that the runtime
// needs.
#ifndef TALLY_BUNDLE_BUNDLE_H
#define TALLY_BUNDLE_BUNDLE_H

#include "tally/bundle/verdict.h"
#include "tally/support/dim3.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tally::bundle {

/// One parameter of the user's kernel: bytes at an offset in its parameter space.
struct Parameter {
  std::uint32_t offset = 0, size = 0;
};

/// Whether a worker of the persistent variant may have to exit after a virtual block although
/// blocks are left. This happens when part of a warp left that block alone
/// (docs/design/transforms.md).
enum class Spending : std::uint8_t {
  Never,
  InPartialRows, ///< in blocks whose x extent is no multiple of 32, always
  Possible
};

/// The blocks for which the blocks of a kernel may wait (docs/design/waits.md).
enum class Waits : std::uint8_t {
  None,        ///< for nothing that another thread writes
  OwnBlock,    ///< for threads of the same block
  Tickets,     ///< for blocks that took a lower number from a counter of the kernel's own
  LowerBlocks, ///< for blocks of lower linear id
  Unknown      ///< for any block; such a kernel has no variants
};

constexpr std::string_view name(Waits waits) {
  constexpr std::array<std::string_view, 5> names = {"none", "own-block", "tickets", "lower-blocks",
                                                     "unknown"};
  return names[static_cast<std::size_t>(waits)];
}

/// One kernel of the module and its verdicts.
struct Kernel {
  std::string name;
  std::vector<Parameter> parameters; ///< the user's, by offset
  std::uint32_t parameterBytes = 0;  ///< bytes of the user's parameters
  std::uint32_t staticSharedBytes = 0;
  bool bitwiseStable = false;    ///< result does not depend on the order of blocks, bit for bit
  std::vector<Verdict> verdicts; ///< one per kind of allKinds, in that order
  Waits waits = Waits::None;
  /// For Waits::LowerBlocks: the property holds in grids in which no dimension beyond the first
  /// `gridRank`, from x on, exceeds 1. The variants must not be launched with other grids.
  std::uint8_t gridRank = 3;
  bool waitsAreAssumed = false; ///< the bundle's maker assumed `waits`; no analysis showed it
  Spending spending = Spending::Never;
  /// The variants are launched with the user's cluster extents: the kernel names a cluster feature
  /// or has an unknown opcode.
  bool usesClusters = false;
  Dim3 requiredCluster{0, 0, 0}; ///< .reqnctapercluster, in blocks; zeros without it
  /// The kernel reads the size of its launch's dynamic shared memory, so no variant may be given
  /// more.
  bool readsSharedSize = false;
  /// The kernel may write variables of its module, pass on their addresses, or use textures. A copy
  /// of the module beside the original would then compute with other values.
  bool changesVariables = false;

  /// Returns the offset of tally_launch_params in a variant's parameters.
  std::uint32_t tallyParameterOffset() const { return (parameterBytes + 7) / 8 * 8; }
  /// Whether workers may spend themselves in blocks of this x extent. Such a launch needs a worker
  /// for each virtual block (abi.h).
  bool maySpend(std::uint32_t blockX) const {
    return spending == Spending::Possible ||
           (spending == Spending::InPartialRows && blockX % 32 != 0);
  }
  const Verdict *verdict(Kind kind) const {
    for (const Verdict &each : verdicts)
      if (each.kind == kind)
        return &each;
    return nullptr;
  }
  /// Whether the guard variant takes its virtual ids from a counter, as persistent does, so that
  /// all lower blocks of a running block are running or done. Such a guard has no resume entry and
  /// no list.
  bool guardTakesTickets() const { return waits == Waits::LowerBlocks; }
  /// Whether the variants may be launched with this grid: see gridRank.
  bool variantsTake(const Dim3 &grid) const {
    return (gridRank > 2 || grid.z == 1) && (gridRank > 1 || grid.y == 1);
  }
  bool emitted(Kind kind) const {
    const Verdict *each = verdict(kind);
    return each && each->status == Status::Emitted;
  }
  bool hasVariants() const {
    for (const Verdict &each : verdicts)
      if (each.status == Status::Emitted)
        return true;
    return false;
  }
};

/// Returns the name of the entry that holds `kernel`'s variant of `kind`; with `resume` the guard's
/// second entry.
inline std::string entryName(std::string_view kernel, Kind kind, bool resume = false) {
  std::string entry(kernel);
  entry += "$tally_";
  entry += name(kind);
  if (resume)
    entry += "_resume";
  return entry;
}

enum class ImageFormat : std::uint8_t { Ptx, Cubin, Fatbin };

/// The whole module, user's kernels and variants together, in a form the driver loads.
struct Image {
  ImageFormat format = ImageFormat::Ptx;
  std::uint32_t arch = 0; ///< 90 for sm_90; for PTX the arch of its target; for a fatbin 0
  std::string bytes;      ///< PTX without a final NUL, a cubin, or a fatbin's container (fatbin.h)
};

/// The contents of a bundle. Plain data; write() and read() are exact inverses.
struct Bundle {
  /// hashOf() the rewritten input. In a bundle file (.tally) the input is the user's PTX,
  /// unchanged; in a `.tally` section it is the container (header and entries) as it lies in memory
  /// at registration.
  std::uint64_t moduleHash = 0;
  std::vector<Kernel> kernels;
  std::vector<Image> images; ///< PTX first, then cubins by arch; or one fatbin

  const Kernel *kernel(std::string_view kernelName) const {
    for (const Kernel &each : kernels)
      if (each.name == kernelName)
        return &each;
    return nullptr;
  }
};

/// FNV-1a over the bytes: ties a bundle to its module and guards it against damage. It does not
/// protect against forgery: a user that can write a bundle can run code on the GPU anyway.
constexpr std::uint64_t hashOf(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char c : bytes)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

} // namespace tally::bundle

#endif
