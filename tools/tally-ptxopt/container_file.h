// Inputs that hold PTX inside something else: told apart by their contents, rewritten whole.
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

/// By the first bytes; what has no magic number is PTX, or LLVM's text if `path` ends in .ll.
FileKind fileKindOf(std::string_view bytes, std::string_view path);

/// "a relocatable object"
std::string_view describe(FileKind kind);

/// Of a file that is no ELF file, called `name`, which is taken as it is (an archive's member, what
/// a compiler made): what to say of device code in it. Nullopt where there is none.
std::optional<std::string> remarkOnOther(const std::string &name, std::string_view bytes,
                                         FileKind kind);

struct ArchivePlan {
  std::vector<ArchiveMember> members;
  std::vector<std::optional<ElfPlan>> objects; ///< of each member that is one
  std::vector<std::string> remarks;            ///< on members that are none
};
/// A file that is nothing but containers.
struct FatbinFilePlan {
  std::vector<FatbinPlan> fatbins;
};

/// One input on its way. Not movable once planned: plans hold views of `bytes`.
struct ContainerFile {
  std::string input, output; ///< paths
  FileKind kind = FileKind::Other;
  std::string bytes;
  std::variant<FatbinFilePlan, ElfPlan, ArchivePlan> plan;
};

/// Reads the fatbins in a file and plans them; the jobs are put behind `jobs`.
Result<std::unique_ptr<ContainerFile>> planContainerFile(const Options &options,
                                                         const std::string &input,
                                                         std::string bytes, FileKind kind,
                                                         std::vector<std::unique_ptr<Job>> &jobs);

/// The file as it is to be written. Nullopt when nothing changes.
Result<std::optional<std::string>> rewriteContainerFile(const Options &options,
                                                        const ContainerFile &file);

/// What the user should know of what was left as it was; each sentence once.
std::vector<std::string> remarksOn(const ContainerFile &file);

} // namespace tally::ptxopt

#endif
