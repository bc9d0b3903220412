// Graphs of the CUDA runtime's table, served by the driver.
#ifndef TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H
#define TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H

#include "tables/cuda_api.h"

namespace tally::preload {

/// Sets the calls that read and launch graphs (GraphReader, ExecutableGraph). The runtime's call
/// tells only kernels that may have variants; the reader asks the driver for the others.
void serveGraphs(hooks::CudaApi &table);

} // namespace tally::preload

#endif
