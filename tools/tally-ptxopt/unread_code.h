// Device code in forms that are not rewritten: found by what it looks like, and named, so that no
// file passes as rewritten while a part of it is not.
//
//   seen in                                          as
//   sections of ELF files, members of archives       a fatbin, a cubin, PTX as text
//   GCC's .gnu.lto_*, .llvm.lto, bitcode             names of functions that register fatbins
//   .llvm.offloading, .gnu.offload_lto_*, bundles    their names: device code of other drivers
//   of clang's (__CLANG_OFFLOAD_BUNDLE__*)
//
// What a compiler keeps for link-time optimisation is compressed or packed by bits; only names are
// looked for there. A fatbin that is plain data of such a file is seen in what is linked from it.
#ifndef TALLY_TOOLS_PTXOPT_UNREAD_CODE_H
#define TALLY_TOOLS_PTXOPT_UNREAD_CODE_H

#include "tally/bundle/elf.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Sections that hold fatbins, rewritten ones' bundles, and what clang keeps apart.
inline constexpr const char *wholeProgramSection = ".nv_fatbin",
                            *relocatableSection = "__nv_relfatbin", *bundleSection = ".tally",
                            *clangSection = ".llvm.offloading";

/// The first device code in `bytes`: "a fatbin at byte 64". Fatbins and cubins are found wherever
/// their headers make sense, PTX by its first two directives.
std::optional<std::string> deviceCodeIn(std::string_view bytes);

/// Whether a compiler's own form of a program (bitcode, GCC's) registers device code when it runs.
bool registersDeviceCode(std::string_view bytes);

/// What to say of LLVM bitcode called `name`, an archive's member or a compiler's output: nullopt
/// where it has no device code.
std::optional<std::string> remarkOnBitcode(const std::string &name, std::string_view bytes);

/// Sentences about the device code of an ELF file outside of `.nv_fatbin`, `__nv_relfatbin` and
/// `.tally`. An Error for a damaged file.
Result<std::vector<std::string>> remarksOnUnreadCode(const std::string &name, std::string_view file,
                                                     const bundle::ElfView &view);

} // namespace tally::ptxopt

#endif
