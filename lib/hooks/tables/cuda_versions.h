// All hooks include <cuda_runtime_api.h> through this header. With CUDA 12's headers it adds the
// parts of CUDA 13 that they lack, so that cuda_api.def and the code use one form of each call.
//
//   before CUDA 13                   here
//   types that are not there yet     declared
//   calls that are not there yet     weak: the program cannot call them
//   NAME_v2, which is 13's NAME      the linker's name of __real_NAME and __wrap_NAME (cuda_12.def)
//   NAME in 12's own form            wrapped by cuda_12.cpp, which calls 13's form
//
// The oldest supported version is CUDA 12.4.
#ifndef TALLY_LIB_HOOKS_TABLES_CUDA_VERSIONS_H
#define TALLY_LIB_HOOKS_TABLES_CUDA_VERSIONS_H

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 12040
#error "the hooks are written for the CUDA runtime from 12.4 on"
#endif

/// cudaLaunchAttributePreferredSharedMemoryCarveout, which 12.4 has no name for.
inline constexpr auto carveoutLaunchAttribute = static_cast<cudaLaunchAttributeID>(14);
/// The attribute's value, sharedMemCarveout: the first 32 bits of the union, as `priority` is.
inline int &carveoutOf(cudaLaunchAttributeValue &value) { return value.priority; }
inline int carveoutOf(const cudaLaunchAttributeValue &value) { return value.priority; }

#if CUDART_VERSION < 13000

// The header renames calls by macros.
#undef cudaGetDeviceProperties
#undef cudaSignalExternalSemaphoresAsync
#undef cudaWaitExternalSemaphoresAsync
#undef cudaStreamGetCaptureInfo

enum cudaAtomicOperation : unsigned;
using cudaLogsCallbackHandle = struct CUlogsCallbackEntry_st *;
using cudaLogIterator = unsigned int;
enum cudaLogLevel : unsigned;
using cudaLogsCallback_t = void (*)(void *data, cudaLogLevel level, char *message, size_t length);

#if CUDART_VERSION < 12080
using cudaLibrary_t = struct CUlib_st *;
enum cudaJitOption : unsigned;
enum cudaLibraryOption : unsigned;
struct cudaMemcpyAttributes;
struct cudaMemcpy3DBatchOp;
#endif

extern "C" {
#define TALLY_CUDA_12_Plain(result, name, suffix, parameters)
#define TALLY_CUDA_12_Ptsz(result, name, suffix, parameters)                                       \
  result __real_##name##_ptsz parameters __asm__("__real_" #name #suffix "_ptsz");                 \
  result __wrap_##name##_ptsz parameters __asm__("__wrap_" #name #suffix "_ptsz");
#define TALLY_CUDA_12(result, name, suffix, parameters, forms)                                     \
  result __real_##name parameters __asm__("__real_" #name #suffix);                                \
  result __wrap_##name parameters __asm__("__wrap_" #name #suffix);                                \
  TALLY_CUDA_12_##forms(result, name, suffix, parameters)
#include "tables/cuda_12.def"
#undef TALLY_CUDA_12_Plain
#undef TALLY_CUDA_12_Ptsz

// CUDA 12's library has no member in 13's form: cuda_12.cpp makes it.
#define TALLY_CUDA_12_MADE(name, parameters)                                                       \
  cudaError_t __real_##name parameters __asm__("tally_real_" #name);                               \
  cudaError_t __wrap_##name parameters __asm__("tally_wrap_" #name);
#define TALLY_CUDA_12_BATCH(name)                                                                  \
  TALLY_CUDA_12_MADE(name, (void *const *dsts, const void *const *srcs, const size_t *sizes,       \
                            size_t count, cudaMemcpyAttributes *attrs, size_t *attrsIdxs,          \
                            size_t numAttrs, cudaStream_t stream))
TALLY_CUDA_12_BATCH(cudaMemcpyBatchAsync)
TALLY_CUDA_12_BATCH(cudaMemcpyBatchAsync_ptsz)
#define TALLY_CUDA_12_BATCH_3D(name)                                                               \
  TALLY_CUDA_12_MADE(name, (size_t numOps, cudaMemcpy3DBatchOp *opList, unsigned long long flags,  \
                            cudaStream_t stream))
TALLY_CUDA_12_BATCH_3D(cudaMemcpy3DBatchAsync)
TALLY_CUDA_12_BATCH_3D(cudaMemcpy3DBatchAsync_ptsz)
#undef TALLY_CUDA_12_BATCH
#undef TALLY_CUDA_12_BATCH_3D
#undef TALLY_CUDA_12_MADE
}

// Nothing in the program can call these functions, so they may be missing where it is linked.
#pragma weak __real_cudaMemGetDefaultMemPool
#pragma weak __real_cudaMemGetMemPool
#pragma weak __real_cudaMemSetMemPool
#pragma weak __real_cudaMemPrefetchBatchAsync
#pragma weak __real_cudaMemPrefetchBatchAsync_ptsz
#pragma weak __real_cudaMemDiscardBatchAsync
#pragma weak __real_cudaMemDiscardBatchAsync_ptsz
#pragma weak __real_cudaMemDiscardAndPrefetchBatchAsync
#pragma weak __real_cudaMemDiscardAndPrefetchBatchAsync_ptsz
#pragma weak __real_cudaDeviceGetHostAtomicCapabilities
#pragma weak __real_cudaDeviceGetP2PAtomicCapabilities
#pragma weak __real_cudaLogsRegisterCallback
#pragma weak __real_cudaLogsUnregisterCallback
#pragma weak __real_cudaLogsCurrent
#pragma weak __real_cudaLogsDumpToFile
#pragma weak __real_cudaLogsDumpToMemory
#if CUDART_VERSION < 12080
#pragma weak __real_cudaStreamGetDevice
#pragma weak __real_cudaStreamGetDevice_ptsz
#pragma weak __real_cudaLibraryLoadData
#pragma weak __real_cudaLibraryLoadFromFile
#pragma weak __real_cudaLibraryUnload
#pragma weak __real_cudaLibraryGetKernel
#pragma weak __real_cudaLibraryGetGlobal
#pragma weak __real_cudaLibraryGetManaged
#pragma weak __real_cudaLibraryGetUnifiedFunction
#pragma weak __real_cudaLibraryGetKernelCount
#pragma weak __real_cudaLibraryEnumerateKernels
#pragma weak __real_cudaKernelSetAttributeForDevice
#pragma weak __real_cudaGetDriverEntryPointByVersion
#pragma weak __real_cudaGetDriverEntryPointByVersion_ptsz
#endif

#endif

#endif
