#include "launch_environment.h"

#include "text.h"

#include <utility>

#include <unistd.h>

namespace tally::launcher {

Variables currentVariables() {
  Variables variables;
  for (char **each = environ; each && *each; ++each) {
    std::string_view entry = *each;
    std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

Variables settingsFor(const RunOptions &options, const Variables &variables) {
  Variables settings;
  auto found = variables.find("TALLY_CLASS");
  if (options.bestEffort)
    settings["TALLY_CLASS"] = "best-effort";
  else if (found == variables.end() || found->second.empty()) // an empty variable counts as unset
    settings["TALLY_CLASS"] = "high";
  if (!options.bestEffortClass.empty())
    settings["TALLY_BEST_EFFORT_CLASS"] = options.bestEffortClass;
  if (options.arena)
    settings["TALLY_ARENA"] = *options.arena;
  if (options.policy)
    settings["TALLY_POLICY"] = *options.policy;
  if (options.statistics)
    settings["TALLY_STATS"] = "1";
  if (options.trace)
    settings["TALLY_TRACE"] = *options.trace;
  return settings;
}

Variables tritonBy(std::string_view folder, const Variables &variables) {
  Variables settings;
  constexpr std::pair<std::string_view, std::string_view> programs[] = {
      {"TRITON_PTXAS_PATH", "ptxas"}, {"TRITON_PTXAS_BLACKWELL_PATH", "ptxas-blackwell"}};
  for (const auto &[name, program] : programs) {
    std::string own = std::string(folder) + "/" + std::string(program);
    auto given = variables.find(name);
    if (given != variables.end() && !given->second.empty() && given->second != own)
      settings["TALLY_PTXAS"] = given->second;
    settings[std::string(name)] = own;
  }
  return settings;
}

std::string preloadWith(std::string_view library, std::string_view before) {
  std::string result(library);
  // The loader accepts both as separators (ld.so(8)).
  for (const std::string &entry : split(before, ": ")) {
    if (entry == library)
      return std::string(before);
    if (fileName(entry) != fileName(library))
      result += ":" + entry;
  }
  return result;
}

} // namespace tally::launcher
