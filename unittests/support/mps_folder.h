// A folder in which an MPS daemon seems to listen, or does not.
#ifndef TALLY_UNITTESTS_SUPPORT_MPS_FOLDER_H
#define TALLY_UNITTESTS_SUPPORT_MPS_FOLDER_H

#include "files.h"
#include "variable.h"

#include <fstream>

namespace tally::test {

/// While the object lives, CUDA_MPS_PIPE_DIRECTORY names the folder.
struct MpsFolder : TemporaryFolder {
  explicit MpsFolder(bool hasDaemon = true) : variable("CUDA_MPS_PIPE_DIRECTORY", path.string()) {
    if (hasDaemon)
      std::ofstream(file("control")) << "";
  }

  Variable variable;
};

} // namespace tally::test

#endif
