// The CUDA device of a library that was built without the CUDA Toolkit.
#include "tally/runtime/device.h"

namespace tally::runtime {

Result<std::unique_ptr<Device>> openCudaDevice() {
  return Error{"the CUDA device is not in this build: libtally_runtime was built without the CUDA "
               "Toolkit"};
}

} // namespace tally::runtime
