#include "doctor.h"
#include "launch_environment.h"

#include "api/environment.h"           // of the runtime
#include "base/cpus.h"                 // of the runtime
#include "device/driver_environment.h" // of the runtime

#include <cstdlib>
#include <fstream>

namespace tally::launcher {

namespace {

std::string valueOf(const Variables &variables, std::string_view name) {
  auto found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

void examineSettings(Report &report, const Variables &variables) {
  Result<runtime::EnvironmentSettings> settings = runtime::readEnvironment(variables);
  if (!settings)
    return report.bad("settings", settings.error().message,
                      "docs/reference/settings.md lists all variables and what may stand in them");
  if (settings->disabled)
    return report.note("settings", "TALLY_DISABLE=1: commands run without Tally",
                       "unset TALLY_DISABLE");
  std::string set;
  for (const auto &[name, value] : variables)
    if (name.starts_with("TALLY_") && !value.empty())
      set += (set.empty() ? "" : ", ") + name + "=" + value;
  report.ok("settings", set.empty() ? "no variable is set" : set);
}

void examineMps(Report &report, const Variables &variables) {
  std::string folder = valueOf(variables, "CUDA_MPS_PIPE_DIRECTORY");
  if (runtime::isMpsRunning())
    report.ok("MPS", "a control pipe is in " + (folder.empty() ? "/tmp/nvidia-mps" : folder) +
                         ": kernels of several processes run side by side");
  else if (!folder.empty())
    report.note("MPS", "no control pipe is in CUDA_MPS_PIPE_DIRECTORY=" + folder,
                "nvidia-cuda-mps-control -d, or unset CUDA_MPS_PIPE_DIRECTORY");
  else
    report.ok("MPS", "no daemon: processes have the GPU in turns");
}

void examineModuleLoading(Report &report, const Variables &variables) {
  const std::string name = "CUDA_MODULE_LOADING";
  std::string value = valueOf(variables, name);
  if (value == "EAGER")
    report.note(name,
                value + ": programs with many kernels, as PyTorch, start later and use more memory",
                "unset " + name);
  else
    report.ok(name, value.empty() ? "not set" : value);
}

void examineConnections(Report &report, const Variables &variables) {
  const std::string name = "CUDA_DEVICE_MAX_CONNECTIONS";
  std::string value = valueOf(variables, name);
  if (value.empty())
    return report.ok(name, "not set");
  // Few connections are wrong without MPS only; with MPS they are right (driver_environment.h).
  bool isFew = std::strtol(value.c_str(), nullptr, 10) < 16 && !runtime::isMpsRunning();
  if (isFew)
    report.note(name, value + ": requests to yield may be stuck behind other streams",
                "unset " + name + ", and Tally takes 32");
  else
    report.ok(name, value);
}

void examineOtherTools(Report &report, const Variables &variables) {
  const std::string injection = "CUDA_INJECTION64_PATH";
  if (std::string tool = valueOf(variables, injection); !tool.empty())
    report.note(injection, tool + " is loaded into the driver, as profilers and checkers are",
                "times are not those of plain runs; unset " + injection);
  if (std::string others = valueOf(variables, "LD_PRELOAD"); !others.empty())
    report.note("LD_PRELOAD", others + ": preloaded behind Tally's library",
                "where a program fails, try it without: unset LD_PRELOAD");
  else
    report.ok("LD_PRELOAD", "not set");
  if (std::string audit = valueOf(variables, "LD_AUDIT"); !audit.empty())
    report.note("LD_AUDIT", audit + ": it may see and change which functions are called",
                "where a program fails, try it without: unset LD_AUDIT");
}

void examineCpus(Report &report) {
  std::string cpus = std::to_string(runtime::availableCpus());
  if (runtime::hasCpusToPoll())
    report.ok("CPUs", cpus + ": Tally's threads poll while best-effort work runs");
  else
    report.note("CPUs",
                cpus + " for a process: Tally's threads sleep between looks, so best-effort work "
                       "yields and resumes some 50 us later",
                "give the process eight CPUs; in a container docker run --cpuset-cpus, or a higher "
                "--cpus");
}

void examineTracing(Report &report) {
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  report.ok("ptrace",
            "not needed" +
                (scope.empty() ? std::string() : " (kernel.yama.ptrace_scope is " + scope + ")"));
}

} // namespace

void examineEnvironment(Report &report) {
  Variables variables = currentVariables();
  examineSettings(report, variables);
  examineMps(report, variables);
  examineModuleLoading(report, variables);
  examineConnections(report, variables);
  examineOtherTools(report, variables);
  examineCpus(report);
  examineTracing(report);
}

} // namespace tally::launcher
