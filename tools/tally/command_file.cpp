#include "command_file.h"

#include "elf_file.h"
#include "text.h"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace tally::launcher {

namespace {

constexpr std::string_view blanks = " \t";

/// Returns the first word and removes it from `text`.
std::string_view takeWord(std::string_view &text) {
  std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  std::size_t end = std::min(text.find_first_of(blanks, begin), text.size());
  std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

/// Returns the word that `env` starts, after its variables and options.
std::string_view startedByEnv(std::string_view arguments) {
  for (;;) {
    std::string_view word = takeWord(arguments);
    if (word.empty() || (word.front() != '-' && word.find('=') == std::string_view::npos))
      return word;
    if (word == "-u" || word == "-C")
      takeWord(arguments);
    constexpr std::string_view split = "--split-string=";
    for (std::string_view option : {split, std::string_view("-S")})
      if (word.starts_with(option) && word.size() > option.size())
        return word.substr(option.size());
  }
}

/// Returns the interpreter to start in place of a file with these contents; empty for a program.
std::string interpreterOf(std::string_view contents) {
  if (contents.starts_with(ELFMAG))
    return {};
  // execvp(3) passes a file that the kernel does not know to the shell.
  if (!contents.starts_with("#!"))
    return "/bin/sh";
  std::string_view line = contents.substr(2, 254); // the kernel's BINPRM_BUF_SIZE
  line = line.substr(0, line.find('\n'));
  std::string_view interpreter = takeWord(line);
  if (fileName(interpreter) == "env")
    if (std::string_view started = startedByEnv(line); !started.empty())
      return std::string(started);
  return std::string(interpreter);
}

bool hasCapabilities(const std::string &path) {
  return getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

bool ignoresIds(const std::string &path) {
  struct statvfs facts{};
  return statvfs(path.c_str(), &facts) == 0 && (facts.f_flag & ST_NOSUID) != 0;
}

} // namespace

std::optional<std::string> findCommand(std::string_view word, std::string_view path) {
  auto isExecutable = [](const std::string &file) {
    struct stat facts{};
    return stat(file.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
           access(file.c_str(), X_OK) == 0;
  };
  if (word.empty())
    return std::nullopt;
  if (word.find('/') != std::string_view::npos)
    return isExecutable(std::string(word)) ? std::optional<std::string>(word) : std::nullopt;
  for (;;) {
    std::size_t end = std::min(path.find(':'), path.size());
    std::string folder(path.substr(0, end));
    std::string file = (folder.empty() ? "." : folder) + "/" + std::string(word);
    if (isExecutable(file))
      return file;
    if (end == path.size())
      return std::nullopt;
    path.remove_prefix(end + 1);
  }
}

std::optional<std::string> findProgram(std::string_view word, std::string_view path) {
  std::optional<std::string> file = findCommand(word, path);
  // An interpreter may be a script too; the kernel follows four levels.
  for (int depth = 0; file && depth < 5; ++depth) {
    MappedFile contents(*file);
    std::string interpreter = interpreterOf(contents.bytes());
    if (interpreter.empty())
      return file;
    file = findCommand(interpreter, path);
  }
  return file;
}

Identity ownIdentity() { return {getuid(), getgid(), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1}; }

bool runsSecurely(const struct stat &facts, bool hasCapabilities, const Identity &identity) {
  if (identity.gainsNothing)
    return false;
  // On a file that the group may not execute, S_ISGID meant mandatory locks.
  constexpr mode_t groupBits = S_ISGID | S_IXGRP;
  if ((facts.st_mode & S_ISUID) != 0 && facts.st_uid != identity.user)
    return true;
  if ((facts.st_mode & groupBits) == groupBits && facts.st_gid != identity.group)
    return true;
  return hasCapabilities && identity.user != 0;
}

std::optional<Obstacle> preloadObstacle(const std::string &path) {
  MappedFile file(path);
  std::optional<ProgramFile> program = readProgram(file.bytes());
  if (!program)
    return std::nullopt;
  if (!program->is64)
    return Obstacle{"is no 64-bit program of this machine", true};
  if (!program->isNative)
    return Obstacle{"is a program of another machine", true};
  if (fileName(program->interpreter).starts_with("ld-musl"))
    // musl's loader ends a program whose preloaded library needs symbols that musl lacks.
    return Obstacle{"is a program of musl, which cannot load a library of glibc", true};
  // The loader itself has no loader either, and preloads into the program that it is given.
  if (program->interpreter.empty() && !readDynamic(file.bytes()).soname.starts_with("ld-"))
    return Obstacle{"is linked statically, and no loader preloads into it"};
  struct stat facts{};
  if (stat(path.c_str(), &facts) == 0 && !ignoresIds(path) &&
      runsSecurely(facts, hasCapabilities(path), ownIdentity()))
    return Obstacle{"runs with rights of its own (set-user-ID, set-group-ID or capabilities), and "
                    "the loader then ignores LD_PRELOAD"};
  return std::nullopt;
}

} // namespace tally::launcher
