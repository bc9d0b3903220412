#include "doctor.h"
#include "driver_query.h"
#include "library_search.h"

#include <unistd.h>

namespace tally::launcher {

namespace {

/// The lowest compute capability that variants are assembled for.
constexpr int leastMajor = 9, leastMinor = 0;

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void examineDevice(Report &report, const DriverDevice &device, std::size_t index) {
  std::string thing = "GPU " + std::to_string(index);
  std::string what = device.name + ", compute capability " + std::to_string(device.major) + "." +
                     std::to_string(device.minor);
  if (std::pair(device.major, device.minor) >= std::pair(leastMajor, leastMinor))
    report.ok(thing, what);
  else
    report.note(thing, what + "; variants are for 9.0 and above",
                "best-effort kernels do not yield on this GPU; take an H100 or a later one");
}

void examineDevices(Report &report, const DriverFacts &facts) {
  if (!facts.fault.empty())
    return report.bad("driver", facts.path + ": " + facts.fault,
                      "see whether nvidia-smi answers, and what dmesg says of NVRM");
  if (facts.version == 0)
    report.bad("driver", facts.path + ": cuDriverGetVersion() fails",
               "the file is no driver of CUDA; install the driver of the GPU");
  else
    report.ok("driver", facts.path + ", CUDA " + versionText(facts.version));
  if (facts.initError != 0)
    return report.bad(
        "GPUs", "cuInit() fails: " + std::to_string(facts.initError) + " " + facts.initErrorName,
        "see whether nvidia-smi lists a GPU, and what CUDA_VISIBLE_DEVICES is; in a "
        "container: docker run --gpus all");
  if (facts.devices.empty())
    return report.bad("GPUs", "the driver has no device",
                      "look at CUDA_VISIBLE_DEVICES; in a container: docker run --gpus all");
  for (std::size_t i = 0; i < facts.devices.size(); ++i)
    examineDevice(report, facts.devices[i], i);
}

/// Reports several drivers; they differ in version where a container brings its own beside the
/// machine's.
void examineCopies(Report &report) {
  std::vector<std::string> found = LibrarySearch::ofProcess().findAll("libcuda.so.1");
  if (found.size() < 2)
    return;
  std::string all;
  for (const std::string &path : found)
    all += (all.empty() ? "" : ", ") + path;
  report.note("driver", "libcuda.so.1 is there more than once: " + all,
              "programs may take different ones; leave one in LD_LIBRARY_PATH and in the cache of "
              "ldconfig");
}

void examineDeviceFile(Report &report) {
  const std::string file = "/dev/nvidiactl";
  if (access(file.c_str(), F_OK) != 0) {
    if (access("/dev/dxg", F_OK) != 0)
      report.note("device file", "there is no " + file,
                  "in a container: docker run --gpus all; else: modprobe nvidia");
  } else if (access(file.c_str(), R_OK | W_OK) != 0) {
    report.bad("device file", file + " may not be read and written by this user",
               "join the group of " + file + ", or set NVreg_DeviceFileMode of the module nvidia");
  } else {
    report.ok("device file", file);
  }
}

} // namespace

void examineDriver(Report &report) {
  DriverFacts facts = queryDriver();
  if (facts.loadError.empty())
    examineDevices(report, facts);
  else
    report.bad("driver", facts.loadError,
               "install the driver of the GPU, or add its folder to LD_LIBRARY_PATH; without it "
               "commands run without Tally");
  examineCopies(report);
  examineDeviceFile(report);
}

} // namespace tally::launcher
