// The CPUs that a process may use.
#ifndef TALLY_LIB_RUNTIME_BASE_CPUS_H
#define TALLY_LIB_RUNTIME_BASE_CPUS_H

#include <optional>
#include <string>
#include <string_view>

namespace tally::runtime {

/// The limit that cgroups set to the process's CPU time, in CPUs: the least of its group and of the
/// groups above. Nothing where there is no limit. `groups`: the text of /proc/self/cgroup; `root`:
/// where the cgroups are mounted. Containers have such limits (`docker run --cpus`, Kubernetes'
/// `limits.cpu`), which the number of CPUs does not show. Source: the kernel's documentation of
/// cgroup v2 (cpu.max), and of version 1 (cpu.cfs_quota_us).
std::optional<double> cpuLimit(std::string_view groups, const std::string &root);

/// The CPUs that the calling thread may run on, or fewer by the limit of cgroups: at least 1. The
/// first call asks the system, later calls give the same answer. Thread-safe.
unsigned availableCpus();

/// Whether a thread may poll all the time without taking a CPU from the threads of the program.
inline bool hasCpusToPoll() { return availableCpus() >= 8; }

} // namespace tally::runtime

#endif
