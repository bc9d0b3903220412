// A folder in which an MPS daemon seems to listen, or does not.
#ifndef TALLY_UNITTESTS_SUPPORT_MPS_FOLDER_H
#define TALLY_UNITTESTS_SUPPORT_MPS_FOLDER_H

#include "files.h"
#include "variable.h"

#include <filesystem>
#include <fstream>

namespace tally::test {

/// While the object lives, CUDA_MPS_PIPE_DIRECTORY names the folder.
struct MpsFolder : TemporaryFolder {
  explicit MpsFolder(bool hasDaemon = true) : variable("CUDA_MPS_PIPE_DIRECTORY", path.string()) {
    if (hasDaemon)
      startDaemon();
  }
  void startDaemon() {
    for (const char *name : {"control", "log", "nvidia-cuda-mps-control.pid"})
      std::ofstream(file(name)) << "";
  }
  /// As a daemon of driver 580 does that is told to quit: its socket stays.
  void quitDaemon() {
    for (const char *name : {"log", "nvidia-cuda-mps-control.pid"})
      std::filesystem::remove(file(name));
  }

  Variable variable;
};

} // namespace tally::test

#endif
