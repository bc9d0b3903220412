// Command files: programs, scripts, and the reasons why some cannot be preloaded into.
#include "command_file.h"
#include "elf_file.h"
#include "scratch_folder.h"

#include <doctest/doctest.h>

#include <cstring>
#include <elf.h>
#include <unistd.h>

using namespace tally::launcher;

namespace {

/// An ELF file with a header and, where it has an interpreter, the program header that names it.
std::string elf(const char *interpreter, std::uint16_t machine = EM_X86_64,
                char fileClass = ELFCLASS64) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = static_cast<unsigned char>(fileClass);
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = machine;
  Elf64_Phdr entry{};
  if (interpreter) {
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    entry.p_type = PT_INTERP;
    entry.p_offset = sizeof header + sizeof entry;
  }
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char *>(&entry), sizeof entry);
  return bytes + (interpreter ? interpreter : "") + '\0';
}

std::string self() {
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return {path, static_cast<std::size_t>(size)};
}

std::string obstacleOf(const std::string &path) {
  return preloadObstacle(path).value_or(Obstacle{"none"}).reason;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

#if defined(__x86_64__)
constexpr std::uint16_t own = EM_X86_64, foreign = EM_AARCH64;
#else
constexpr std::uint16_t own = EM_AARCH64, foreign = EM_X86_64;
#endif

} // namespace

TEST_CASE("programs into which nothing can be preloaded are told apart") {
  ScratchFolder folder;
  CHECK(obstacleOf(self()) == "none");
  CHECK(obstacleOf(folder.file("dynamic", elf("/lib64/ld-linux.so.2", own))) == "none");
  std::string fixed = folder.file("static", elf(nullptr, own));
  CHECK(has(obstacleOf(fixed), "linked statically"));
  CHECK_FALSE(preloadObstacle(fixed)->hurts);
  std::string musl = folder.file("musl", elf("/lib/ld-musl-x86_64.so.1", own));
  CHECK(has(obstacleOf(musl), "musl"));
  CHECK(preloadObstacle(musl)->hurts);
  CHECK(has(obstacleOf(folder.file("foreign", elf("/ld.so", foreign))), "another machine"));
  CHECK(has(obstacleOf(folder.file("narrow", elf("/ld.so", EM_386, ELFCLASS32))), "64-bit"));
}

TEST_CASE("damaged files and others than programs are no obstacle, and harm nobody") {
  ScratchFolder folder;
  CHECK(obstacleOf(folder.file("text", "hello")) == "none");
  CHECK(obstacleOf(folder.file("empty", "")) == "none");
  CHECK(obstacleOf(folder.path + "/missing") == "none");
  const std::string whole = elf("/ld.so", own);
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(readProgram(std::string_view(whole).substr(0, size))
                    .value_or(ProgramFile())
                    .interpreter.starts_with("/ld.so/"));
  std::string far = whole;
  std::memset(far.data() + offsetof(Elf64_Ehdr, e_phoff), 0xff, 8);
  CHECK(readProgram(far)->interpreter.empty());
}

TEST_CASE("a command is found as execvp finds it") {
  ScratchFolder folder;
  std::string first = folder.folder("first"), second = folder.folder("second");
  folder.file("first/plain", "x", 0644);
  std::string wanted = folder.file("second/plain", "x");
  std::string path = first + ":" + second;
  CHECK(findCommand("plain", path) == wanted);
  CHECK_FALSE(findCommand("plain", first));
  CHECK_FALSE(findCommand("plain", ""));
  CHECK_FALSE(findCommand("", path));
  CHECK_FALSE(findCommand(first, path));
  CHECK(findCommand(wanted, "") == wanted);
}

TEST_CASE("for a script its interpreter is the program") {
  ScratchFolder folder;
  std::string program = folder.file("program", elf(nullptr, own));
  auto programOf = [&, count = 0](const std::string &line) mutable {
    std::string script = folder.file("script" + std::to_string(++count), line);
    return findProgram(script, folder.path);
  };
  CHECK(programOf("#!" + program + "\n") == program);
  CHECK(programOf("#! \t" + program + " -x y\nrest") == program);
  CHECK(programOf("#!/usr/bin/env program\n") == program);
  CHECK(programOf("#!/usr/bin/env -S program -u\n") == program);
  CHECK(programOf("#!/usr/bin/env -Sprogram\n") == program);
  CHECK(programOf("#!/usr/bin/env -S A=b -u C program -u\n") == program);
  std::string inner = folder.file("inner", "#!" + program + "\n");
  CHECK(programOf("#!" + inner + "\n") == program);
  CHECK_FALSE(programOf("#!/no/such/interpreter\n"));
  // A script without an interpreter line runs in the shell.
  CHECK(programOf("echo hello\n") == findProgram("/bin/sh", ""));
  std::string loop = folder.path + "/loop";
  folder.file("loop", "#!" + loop + "\n");
  CHECK(findProgram(loop, "") == loop);
}

TEST_CASE("set-user-ID, set-group-ID and capabilities matter where they give rights") {
  struct stat facts{};
  facts.st_mode = S_IFREG | 0755;
  facts.st_uid = 1;
  facts.st_gid = 2;
  const Identity user{1000, 1000}, root{0, 0};
  CHECK_FALSE(runsSecurely(facts, false, user));
  CHECK(runsSecurely(facts, true, user));
  CHECK_FALSE(runsSecurely(facts, true, root));
  facts.st_mode = S_IFREG | S_ISUID | 0755;
  CHECK(runsSecurely(facts, false, user));
  CHECK_FALSE(runsSecurely(facts, false, Identity{1, 1000}));
  CHECK_FALSE(runsSecurely(facts, true, Identity{1000, 1000, true}));
  facts.st_mode = S_IFREG | S_ISGID | 0755;
  CHECK(runsSecurely(facts, false, user));
  CHECK_FALSE(runsSecurely(facts, false, Identity{1000, 2}));
  facts.st_mode = S_IFREG | S_ISGID | 0644;
  CHECK_FALSE(runsSecurely(facts, false, user));
}
