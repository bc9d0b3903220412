// Graphs of the CUDA runtime's table, served by the driver.
#ifndef TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H
#define TALLY_LIB_PRELOAD_DRIVER_GRAPHS_H

#include "tables/cuda_api.h"

namespace tally::preload {

/// Sets the calls by which graphs are read and launched (GraphReader, ExecutableGraph). Of kernels
/// the runtime's call tells those alone that have variants: others the reader asks the driver for.
void serveGraphs(hooks::CudaApi &table);

} // namespace tally::preload

#endif
