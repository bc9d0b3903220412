// What the CUDA driver reads from the environment when it starts.
#ifndef TALLY_LIB_RUNTIME_DEVICE_DRIVER_ENVIRONMENT_H
#define TALLY_LIB_RUNTIME_DEVICE_DRIVER_ENVIRONMENT_H

#include <cstddef>
#include <optional>

namespace tally::runtime {

/// Whether a client of MPS would start here: its daemon's socket is where the driver looks for it
/// (CUDA_MPS_PIPE_DIRECTORY, else /tmp/nvidia-mps).
bool isMpsRunning();

/// To be called before the driver starts, while no other thread reads the environment. What the
/// user has set stays.
///  - CUDA_DEVICE_MAX_CONNECTIONS=32: with the default of 8 the control stream was seen stuck
///    behind other streams for 12 ms. Under MPS 4, since its clients share the hardware's channels:
///    with 32 for each the fourth process gets no context (cudaErrorMemoryAllocation), with 8 the
///    sixteenth; with 4, 24 processes did, and with MPS's own default the control write came later.
///  - CUDA_MODULE_LOADING=EAGER: a module that is loaded by its first launch waits for running
///    kernels. Only where the program `loadsEagerly`: one whose libraries have thousands of kernels
///    (PyTorch) would start late, with gigabytes of code on the device.
///  - CUDA_MPS_CLIENT_PRIORITY, where it is known whether the process has best-effort work only: 1
///    then, else 0, which is the higher of MPS's two. Without MPS it means nothing.
void prepareDriverEnvironment(std::optional<bool> bestEffortOnly = std::nullopt,
                              bool loadsEagerly = true);

/// With fewer streams than this a program's streams are taken to have a hardware connection each,
/// so that one that waits holds up no other: half of CUDA_DEVICE_MAX_CONNECTIONS, since libraries
/// have streams of their own, and how the driver deals connections out is not known; 0 where these
/// are less than 16.
std::size_t streamsWithOwnConnection();

} // namespace tally::runtime

#endif
