// Finds device code that tally-ptxopt cannot rewrite, by the typical bytes of each form, and
// reports the code. So no file passes as rewritten while a part of the file is not.
//
//   seen in                                          as
//   sections of ELF files, members of archives       a fatbin, a cubin, PTX as text
//   GCC's .gnu.lto_*, .llvm.lto, bitcode             names of functions that register fatbins
//   .llvm.offloading, .gnu.offload_lto_*, bundles    their names: device code of other drivers
//   of clang's (__CLANG_OFFLOAD_BUNDLE__*)
//
// Compilers compress or bit-pack the code that they keep for link-time optimisation, so only names
// are searched there. A fatbin that is plain data of such a file shows in the linked result.
#ifndef TALLY_TOOLS_PTXOPT_UNREAD_CODE_H
#define TALLY_TOOLS_PTXOPT_UNREAD_CODE_H

#include "tally/bundle/elf.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::ptxopt {

/// Sections of fatbins, of their bundles once rewritten, and of code that clang keeps apart.
inline constexpr const char *wholeProgramSection = ".nv_fatbin",
                            *relocatableSection = "__nv_relfatbin", *bundleSection = ".tally",
                            *clangSection = ".llvm.offloading";

/// Returns the first device code in `bytes`: "a fatbin at byte 64". Fatbins and cubins are
/// recognised by plausible headers, PTX by its first two directives.
std::optional<std::string> deviceCodeIn(std::string_view bytes);

/// Whether a compiler's intermediate form of a program (bitcode, GCC's) registers device code at
/// run time.
bool registersDeviceCode(std::string_view bytes);

/// Returns a remark on LLVM bitcode called `name`, an archive's member or a compiler's output:
/// nullopt if it has no device code.
std::optional<std::string> remarkOnBitcode(const std::string &name, std::string_view bytes);

/// Returns sentences about the device code of an ELF file outside of `.nv_fatbin`, `__nv_relfatbin`
/// and `.tally`. An Error for a damaged file.
Result<std::vector<std::string>> remarksOnUnreadCode(const std::string &name, std::string_view file,
                                                     const bundle::ElfView &view);

} // namespace tally::ptxopt

#endif
