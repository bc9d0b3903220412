// Inputs that hold PTX inside another format: detected by their contents and rewritten whole.
#ifndef TALLY_TOOLS_PTXOPT_CONTAINER_FILE_H
#define TALLY_TOOLS_PTXOPT_CONTAINER_FILE_H

#include "archive.h"
#include "elf_rewrite.h"
#include "fatbin_merge.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tally::ptxopt {

enum class FileKind {
  Ptx,
  Fatbin,
  Object,
  Linked,
  Archive,
  ThinArchive,
  Cubin,
  Bitcode,
  LlvmText,
  Bundle,
  Other
};

/// Detects the kind by the first bytes. A file without a magic number is PTX, or LLVM's text if
/// `path` ends in .ll.
FileKind fileKindOf(std::string_view bytes, std::string_view path);

/// "a relocatable object"
std::string_view describe(FileKind kind);

/// Returns a remark on device code in a file called `name` that is no ELF file and is left as it is
/// (an archive's member, a compiler's output). Nullopt without device code.
std::optional<std::string> remarkOnOther(const std::string &name, std::string_view bytes,
                                         FileKind kind);

struct ArchivePlan {
  std::vector<ArchiveMember> members;
  std::vector<std::optional<ElfPlan>> objects; ///< plans of the members that are objects
  std::vector<std::string> remarks;            ///< on members that are no objects
};
/// A file that consists of containers only.
struct FatbinFilePlan {
  std::vector<FatbinPlan> fatbins;
};

/// One input in processing. Not movable once planned: plans hold views of `bytes`.
struct ContainerFile {
  std::string input, output; ///< paths
  FileKind kind = FileKind::Other;
  std::string bytes;
  std::variant<FatbinFilePlan, ElfPlan, ArchivePlan> plan;
};

/// Reads the fatbins in a file and plans them; appends the jobs to `jobs`.
Result<std::unique_ptr<ContainerFile>> planContainerFile(const Options &options,
                                                         const std::string &input,
                                                         std::string bytes, FileKind kind,
                                                         std::vector<std::unique_ptr<Job>> &jobs);

/// Returns the file's new contents. Nullopt when nothing changes.
Result<std::optional<std::string>> rewriteContainerFile(const Options &options,
                                                        const ContainerFile &file);

/// Returns remarks for the user on code that was left as it was; each sentence once.
std::vector<std::string> remarksOn(const ContainerFile &file);

} // namespace tally::ptxopt

#endif
