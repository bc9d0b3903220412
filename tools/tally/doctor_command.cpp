#include "command_file.h"
#include "doctor.h"
#include "elf_file.h"
#include "library_search.h"

#include "tally/bundle/elf.h"

#include <cstdlib>

namespace tally::launcher {

namespace {

bool isLinkedWithTally(std::string_view file) {
  if (exportsSymbol(file, "tally_request_begin"))
    return true;
  Result<std::optional<std::string_view>> section = bundle::findSection(file, ".tally");
  return section && *section;
}

std::string listed(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

void examineLibraries(Report &report, const std::string &program) {
  std::vector<std::string> linked, namespaces;
  std::vector<std::string> files = LibrarySearch::ofProcess().closureOf(program);
  for (const std::string &path : files) {
    MappedFile file(path);
    if (isLinkedWithTally(file.bytes()))
      linked.push_back(path);
    if (importsSymbol(file.bytes(), "dlmopen"))
      namespaces.push_back(path);
  }
  if (!linked.empty())
    report.note("command", "linked with Tally already: " + listed(linked),
                "start it without 'tally run', with the settings as variables");
  if (!namespaces.empty())
    report.note("command", "dlmopen is used by " + listed(namespaces),
                "what is loaded into a namespace of its own is not seen by a preloaded library");
  if (linked.empty() && namespaces.empty())
    report.ok("command", std::to_string(files.size()) +
                             " files looked at: the program and the libraries that it names");
}

} // namespace

void examineCommand(Report &report, const std::string &word) {
  const char *path = std::getenv("PATH");
  std::optional<std::string> program = findProgram(word, path ? path : "/bin:/usr/bin");
  if (!program)
    return report.bad("command", word + " is not found, or cannot be executed",
                      "look at PATH, and at the first line where it is a script");
  if (std::optional<Obstacle> obstacle = preloadObstacle(*program))
    return report.bad("command", *program + " " + obstacle->reason,
                      "start a program that the loader of glibc loads with the user's own rights");
  report.ok("command", *program + ": a library can be preloaded");
  examineLibraries(report, *program);
}

} // namespace tally::launcher
