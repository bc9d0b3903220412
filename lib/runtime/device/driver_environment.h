// Sets the environment variables that the CUDA driver reads when it starts.
#ifndef TALLY_LIB_RUNTIME_DEVICE_DRIVER_ENVIRONMENT_H
#define TALLY_LIB_RUNTIME_DEVICE_DRIVER_ENVIRONMENT_H

#include <cstddef>
#include <optional>

namespace tally::runtime {

/// Whether the process would become a client of MPS: the MPS daemon's socket is where the driver
/// looks for it (CUDA_MPS_PIPE_DIRECTORY, else /tmp/nvidia-mps), and so is another file that a
/// running daemon has there. True also for a daemon that was killed.
bool isMpsRunning();

/// Call this before the driver starts, while no other thread reads the environment. Variables that
/// are set already stay as they are.
///  - CUDA_DEVICE_MAX_CONNECTIONS=32: with the default of 8 the control stream was seen stuck
///    behind other streams for 12 ms. Under MPS the value is 4, since the clients of MPS share the
///    hardware's channels. With 32 for each client the fourth process gets no context
///    (cudaErrorMemoryAllocation); with 8 the sixteenth gets none; with 4, 24 processes got one.
///    With MPS's own default the control write came later.
///  - CUDA_MODULE_LOADING=EAGER: a module that is loaded by its first launch waits for running
///    kernels. Set only if `loadsEagerly`: a program whose libraries have thousands of kernels
///    (PyTorch) would start late, with gigabytes of code on the device.
///  - CUDA_MPS_CLIENT_PRIORITY, if `bestEffortOnly` has a value: 1 if the process has best-effort
///    work only, else 0, the higher of MPS's two priorities. The variable has no effect without
///    MPS.
void prepareDriverEnvironment(std::optional<bool> bestEffortOnly = std::nullopt,
                              bool loadsEagerly = true);

/// With fewer streams than this, each stream of a program is assumed to have its own hardware
/// connection, so that a stream that waits holds up no other. Half of CUDA_DEVICE_MAX_CONNECTIONS,
/// since libraries have their own streams and it is not known how the driver assigns connections; 0
/// where there are fewer than 16 connections.
std::size_t streamsWithOwnConnection();

} // namespace tally::runtime

#endif
