// Graphs of the CUDA runtime's table, served by the driver.
#ifndef TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H
#define TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H

#include "tables/cuda_api.h"

namespace tally::preload {

/// Sets the calls that read and launch graphs (GraphReader, ExecutableGraph). The runtime's call
/// returns the parameters of those kernels only that may have variants; the reader asks the driver
/// about the other kernels.
void serveGraphs(hooks::CudaApi &table);

} // namespace tally::preload

#endif
