#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace tally::runtime {

namespace {

/// The text of a small file; empty where it cannot be read.
std::string textOf(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// `words`: "QUOTA PERIOD". A quota of "max", or of -1, is none.
std::optional<double> ratioOf(const std::string &words) {
  std::istringstream text(words);
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0)
    return std::nullopt;
  return quota / period;
}

/// The limits of one group, in version 2 and in version 1.
std::optional<double> ofMax(const std::string &folder) {
  return ratioOf(textOf(folder + "/cpu.max"));
}
std::optional<double> ofQuota(const std::string &folder) {
  return ratioOf(textOf(folder + "/cpu.cfs_quota_us") + " " +
                 textOf(folder + "/cpu.cfs_period_us"));
}

void lower(std::optional<double> &least, std::optional<double> found) {
  if (found && (!least || *found < *least))
    least = found;
}

/// The least limit of a group and of the groups above it, up to `root`. A container may see its own
/// group as the root, and under its path on the host no folder.
template <class Of>
std::optional<double> leastUpTo(const std::string &root, std::string_view path, const Of &of) {
  std::optional<double> least;
  for (;;) {
    lower(least, of(root + std::string(path)));
    std::size_t end = path.rfind('/');
    if (end == std::string_view::npos)
      return least;
    path = path.substr(0, end);
  }
}

unsigned cpusOfAffinity() {
  for (int most = 1024; most <= 1 << 20; most *= 2) {
    std::vector<cpu_set_t> set(CPU_ALLOC_SIZE(most) / sizeof(cpu_set_t));
    std::size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0)
      return static_cast<unsigned>(CPU_COUNT_S(bytes, set.data()));
    if (errno != EINVAL)
      break;
  }
  return std::thread::hardware_concurrency();
}

} // namespace

std::optional<double> cpuLimit(std::string_view groups, const std::string &root) {
  std::optional<double> least;
  std::istringstream lines{std::string(groups)};
  // NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
  for (std::string line; std::getline(lines, line);) {
    std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers.empty())
      lower(least, leastUpTo(root, path, ofMax));
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      lower(least, leastUpTo(root + "/" + controllers, path, ofQuota));
  }
  return least;
}

unsigned availableCpus() {
  static const unsigned cpus = [] {
    unsigned all = std::max(cpusOfAffinity(), 1u);
    std::optional<double> limit = cpuLimit(textOf("/proc/self/cgroup"), "/sys/fs/cgroup");
    if (!limit || *limit >= all)
      return all;
    return std::max(static_cast<unsigned>(*limit), 1u);
  }();
  return cpus;
}

} // namespace tally::runtime
