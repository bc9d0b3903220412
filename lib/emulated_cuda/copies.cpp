#include "copies.h"

#include "memory.h"
#include "streams.h"

#include <atomic>
#include <cstring>
#include <vector>

namespace tally::hooks::emulated {

namespace {

std::size_t spanOf(const Side &side, std::size_t width, std::size_t height, std::size_t depth) {
  return (depth - 1) * side.slice + (height - 1) * side.pitch + width;
}

enum class Place : std::uint8_t { Pageable, Usable, Beyond };

/// Whether kernels can use the whole range; Beyond where they can use only its start.
Place placeOf(runtime::EmulatorDevice &device, const void *pointer, std::size_t bytes) {
  auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto allocation = device.machine().allocationAt(address);
  if (!allocation)
    return Place::Pageable;
  std::uintptr_t end = reinterpret_cast<std::uintptr_t>(allocation->data()) + allocation->size();
  return bytes <= end - address ? Place::Usable : Place::Beyond;
}

/// Writes a word in one store, after all earlier writes: the host may poll the word, as on a GPU.
void copyRow(std::byte *to, const std::byte *from, std::size_t bytes) {
  std::uint64_t word = 0;
  if (bytes != sizeof word || reinterpret_cast<std::uintptr_t>(to) % alignof(std::uint64_t) != 0) {
    std::memmove(to, from, bytes);
    return;
  }
  std::memcpy(&word, from, sizeof word);
  std::atomic_ref(*reinterpret_cast<std::uint64_t *>(to)).store(word, std::memory_order_release);
}

void run(const Box &box) {
  for (std::size_t z = 0; z < box.depth; ++z)
    for (std::size_t y = 0; y < box.height; ++y)
      copyRow(box.to.begin + z * box.to.slice + y * box.to.pitch,
              box.from.begin + z * box.from.slice + y * box.from.pitch, box.width);
}

void run(const Fill &fill) {
  for (std::size_t z = 0; z < fill.depth; ++z)
    for (std::size_t y = 0; y < fill.height; ++y) {
      std::byte *row = fill.to.begin + z * fill.to.slice + y * fill.to.pitch;
      if (fill.valueBytes == 1)
        std::memset(row, fill.value, fill.width);
      else
        for (std::size_t x = 0; x < fill.width; x += fill.valueBytes)
          std::memcpy(row + x, &fill.value, fill.valueBytes);
    }
}

/// Copies the source's bytes now.
std::shared_ptr<std::vector<std::byte>> stage(Box &box) {
  auto staged = std::make_shared<std::vector<std::byte>>(box.width * box.height * box.depth);
  Box taking = box;
  taking.to = {staged->data(), box.width, box.width * box.height};
  run(taking);
  box.from = taking.to;
  return staged;
}

} // namespace

cudaError_t complaint(runtime::EmulatorDevice &device, const Box &box, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (box.isEmpty())
    return cudaSuccess;
  if (box.height > 1 && (box.width > box.to.pitch || box.width > box.from.pitch))
    return cudaErrorInvalidPitchValue;
  if (!box.to.begin || !box.from.begin)
    return cudaErrorInvalidValue;
  Place to = placeOf(device, box.to.begin, spanOf(box.to, box.width, box.height, box.depth));
  Place from = placeOf(device, box.from.begin, spanOf(box.from, box.width, box.height, box.depth));
  bool wantsTo = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool wantsFrom = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to == Place::Beyond || from == Place::Beyond || (wantsTo && to != Place::Usable) ||
      (wantsFrom && from != Place::Usable))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

namespace {

cudaPitchedPtr pitched(const Side &side, std::size_t width) {
  return {side.begin, side.pitch, width, side.pitch != 0 ? side.slice / side.pitch : 0};
}

/// The parameters that a query returns for a copy which the program described in another form.
cudaMemcpy3DParms parametersOf(const Box &box, cudaMemcpyKind kind) {
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = pitched(box.from, box.width);
  parameters.dstPtr = pitched(box.to, box.width);
  parameters.extent = {box.width, box.height, box.depth};
  parameters.kind = kind;
  return parameters;
}

cudaMemsetParams parametersOf(const Fill &fill) {
  cudaMemsetParams parameters{};
  parameters.dst = fill.to.begin;
  parameters.pitch = fill.to.pitch;
  parameters.value = static_cast<unsigned>(fill.value);
  parameters.elementSize = static_cast<unsigned>(fill.valueBytes);
  parameters.width = fill.width / fill.valueBytes;
  parameters.height = fill.height;
  return parameters;
}

} // namespace

GraphWork workOf(const Box &box, cudaMemcpyKind kind) {
  return {[box](runtime::EmulatorDevice &device, runtime::StreamId stream) {
            return device.enqueue(stream, [box]() -> Result<void> {
              run(box);
              return {};
            });
          },
          parametersOf(box, kind)};
}

GraphWork workOf(const Fill &fill) {
  auto issue = [fill](runtime::EmulatorDevice &device, runtime::StreamId stream) {
    return device.enqueue(stream, [fill]() -> Result<void> {
      run(fill);
      return {};
    });
  };
  // The parameters of a node have no third dimension.
  return fill.depth == 1 ? GraphWork(issue, parametersOf(fill)) : GraphWork(issue);
}

cudaError_t copy(runtime::EmulatorDevice &device, cudaStream_t handle, Box box, cudaMemcpyKind kind,
                 Wait wait) {
  Stream *stream = Streams::get().find(handle);
  if (!stream)
    return cudaErrorInvalidResourceHandle;
  if (cudaError_t bad = complaint(device, box, kind); bad != cudaSuccess)
    return bad;
  if (box.isEmpty())
    return cudaSuccess;
  if (stream->capture)
    return wait == Wait::Yes ? refuseInCapture(*stream)
                             : submit(device, *stream, cudaGraphNodeTypeMemcpy, workOf(box, kind));
  bool readsPageable = placeOf(device, box.from.begin, 1) == Place::Pageable;
  bool writesPageable = placeOf(device, box.to.begin, 1) == Place::Pageable;
  bool waits = wait == Wait::Yes || writesPageable;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (readsPageable && !waits)
    staged = stage(box);
  GraphWork work = [box, staged](runtime::EmulatorDevice &to, runtime::StreamId id) {
    return to.enqueue(id, [box, staged]() -> Result<void> {
      run(box);
      return {};
    });
  };
  cudaError_t error = submit(device, *stream, cudaGraphNodeTypeMemcpy, std::move(work));
  if (error != cudaSuccess || !waits)
    return error;
  return Context::get().meaning(Streams::get().synchronize(device, *stream));
}

cudaError_t complaint(runtime::EmulatorDevice &device, const Fill &fill) {
  if (fill.width == 0 || fill.height == 0 || fill.depth == 0)
    return cudaSuccess;
  if (fill.height > 1 && fill.width > fill.to.pitch)
    return cudaErrorInvalidPitchValue;
  std::size_t bytes = spanOf(fill.to, fill.width, fill.height, fill.depth);
  return placeOf(device, fill.to.begin, bytes) == Place::Usable ? cudaSuccess
                                                                : cudaErrorInvalidValue;
}

cudaError_t fill(runtime::EmulatorDevice &device, cudaStream_t stream, const Fill &fill) {
  if (cudaError_t bad = complaint(device, fill); bad != cudaSuccess)
    return bad;
  if (fill.width == 0 || fill.height == 0 || fill.depth == 0)
    return cudaSuccess;
  return submit(device, stream, cudaGraphNodeTypeMemset, workOf(fill));
}

namespace {

/// A side of a 3D copy. A position in an array counts elements; any other position counts bytes.
cudaError_t sideOf(cudaArray_t handle, const cudaPos &position, const cudaPitchedPtr &pointer,
                   Side &side) {
  if ((handle != nullptr) == (pointer.ptr != nullptr))
    return cudaErrorInvalidValue;
  if (handle) {
    const auto &array = *reinterpret_cast<const Array *>(handle);
    side.pitch = array.pitch();
    side.slice = array.pitch() * array.rows();
    side.begin = hostPointer(array.memory) + position.z * side.slice + position.y * side.pitch +
                 position.x * array.elementBytes;
    return cudaSuccess;
  }
  side.pitch = pointer.pitch;
  side.slice = pointer.pitch * pointer.ysize;
  side.begin = static_cast<std::byte *>(pointer.ptr) + position.z * side.slice +
               position.y * side.pitch + position.x;
  return cudaSuccess;
}

} // namespace

cudaError_t boxOf(const cudaMemcpy3DParms &parameters, Box &box) {
  const auto *source = reinterpret_cast<const Array *>(parameters.srcArray);
  const auto *target = reinterpret_cast<const Array *>(parameters.dstArray);
  std::size_t elementBytes = source ? source->elementBytes : target ? target->elementBytes : 1;
  if (cudaError_t bad = sideOf(parameters.srcArray, parameters.srcPos, parameters.srcPtr, box.from);
      bad != cudaSuccess)
    return bad;
  if (cudaError_t bad = sideOf(parameters.dstArray, parameters.dstPos, parameters.dstPtr, box.to);
      bad != cudaSuccess)
    return bad;
  box.width = parameters.extent.width * elementBytes;
  box.height = parameters.extent.height;
  box.depth = parameters.extent.depth;
  // A single slice needs no slice pitch, and a side may omit its height.
  if (box.depth > 1 && (box.from.slice == 0 || box.to.slice == 0))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

} // namespace tally::hooks::emulated
