// The streams of a CUDA device, and the operations on them except launches.
#include "device/cuda_device.h"

#include "device/stream_memory.h"

#include <optional>
#include <utility>

namespace tally::runtime {

Result<StreamId> CudaDevice::createStream(StreamPriority priority) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  // Levels 0 to -5 on an H200. With only two levels the control stream shares the upper level.
  int level = lowest;
  if (priority == StreamPriority::Control) {
    level = highest;
    if (Result<CUstream> apart = confined.createApart(0, highest)) {
      controlIsApart = true;
      return static_cast<StreamId>(reinterpret_cast<std::uint64_t>(*apart));
    }
  } else if (priority == StreamPriority::High) {
    level = lowest - highest >= 2 ? highest + 1 : highest;
  }
  CUstream stream = nullptr;
  TALLY_CUDA_TRY(driver, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, level);
  std::unique_lock lock(mutex);
  streams.insert(stream);
  countStreams();
  return static_cast<StreamId>(reinterpret_cast<std::uint64_t>(stream));
}

Result<StreamId> CudaDevice::createConfinedStream(std::uint32_t sms) {
  Result<void> current = makeCurrent();
  Result<CUstream> made = current ? confined.create(0, sms, lowest) : current.error();
  if (!made)
    return made.error();
  return static_cast<StreamId>(reinterpret_cast<std::uint64_t>(*made));
}

Result<void> CudaDevice::destroyStream(StreamId stream) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  if (confined.destroy(streamOf(stream)))
    return {};
  {
    std::unique_lock lock(mutex);
    streams.erase(streamOf(stream));
    countStreams();
  }
  TALLY_CUDA_TRY(driver, cuStreamDestroy, streamOf(stream));
  return {};
}

/// Call under the mutex.
void CudaDevice::countStreams() { streamCount = streams.size() + adoptedStreams; }

Result<StreamId> CudaDevice::adoptStream(std::uint64_t nativeStream) {
  auto *stream = reinterpret_cast<CUstream>(nativeStream);
  // A default stream depends on the thread, or waits for other streams.
  if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
    return Error{"a default stream cannot be adopted; make one with "
                 "cudaStreamCreateWithPriority()"};
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CUcontext of = nullptr;
  TALLY_CUDA_TRY(driver, cuStreamGetCtx, stream, &of);
  if (of != context)
    return Error{"the stream is of another context than the primary one of the device"};
  std::unique_lock lock(mutex);
  ++adoptedStreams;
  countStreams();
  return static_cast<StreamId>(nativeStream);
}

void CudaDevice::releaseStream(StreamId /*stream*/) {
  std::unique_lock lock(mutex);
  --adoptedStreams;
  countStreams();
}

Result<void> CudaDevice::copyToDevice(StreamId stream, DevicePtr to,
                                      std::span<const std::byte> from) {
  if (from.empty())
    return {};
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuMemcpyHtoDAsync, static_cast<CUdeviceptr>(to), from.data(), from.size(),
                 streamOf(stream));
  return {};
}

Result<void> CudaDevice::copyToHost(StreamId stream, std::span<std::byte> to, DevicePtr from) {
  if (to.empty())
    return {};
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuMemcpyDtoHAsync, to.data(), static_cast<CUdeviceptr>(from), to.size(),
                 streamOf(stream));
  return {};
}

Result<void> CudaDevice::fill(StreamId stream, DevicePtr to, std::byte value, std::size_t bytes) {
  if (bytes == 0)
    return {};
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuMemsetD8Async, static_cast<CUdeviceptr>(to),
                 std::to_integer<unsigned char>(value), bytes, streamOf(stream));
  return {};
}

Result<void> CudaDevice::writeValue(StreamId stream, DevicePtr to, std::uint64_t value) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuStreamWriteValue64, streamOf(stream), static_cast<CUdeviceptr>(to),
                 value, CU_STREAM_WRITE_VALUE_DEFAULT);
  return {};
}

Result<void> CudaDevice::writeValueWhen(StreamId stream, std::uint64_t reached, DevicePtr to,
                                        std::uint64_t value) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  auto both = triggeredWrite(triggerWord.device, reached, to, value);
  TALLY_CUDA_TRY(driver, cuStreamBatchMemOp, streamOf(stream), both.size(), both.data(), 0);
  return {};
}

Result<bool> CudaDevice::isIdle(StreamId stream) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CUresult code = driver.TALLY_CUDA_ENTRY(cuStreamQuery)(streamOf(stream));
  if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY)
    return code == CUDA_SUCCESS;
  return driver.failure("cuStreamQuery", code);
}

Result<void> CudaDevice::synchronize(StreamId stream) {
  if (Result<void> current = makeCurrent(); !current)
    return current;
  TALLY_CUDA_TRY(driver, cuStreamSynchronize, streamOf(stream));
  return {};
}

Result<bool> CudaDevice::waitFor(StreamId later, StreamId earlier) {
  if (Result<void> current = makeCurrent(); !current)
    return current.error();
  CUevent event = nullptr;
  TALLY_CUDA_TRY(driver, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  CUresult code = driver.TALLY_CUDA_ENTRY(cuEventRecord)(event, streamOf(earlier));
  const char *call = "cuEventRecord";
  if (code == CUDA_SUCCESS) {
    call = "cuStreamWaitEvent";
    code = driver.TALLY_CUDA_ENTRY(cuStreamWaitEvent)(streamOf(later), event, 0);
  }
  // The issued wait keeps the event alive.
  driver.TALLY_CUDA_ENTRY(cuEventDestroy)(event);
  if (code != CUDA_SUCCESS)
    return driver.failure(call, code);
  return true;
}

} // namespace tally::runtime
