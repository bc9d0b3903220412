#include "state/memory_account.h"

#include <algorithm>
#include <utility>

namespace tally::hooks {

namespace {

/// More bytes than any device has, so that the allocation always fails.
constexpr std::size_t impossible = std::size_t{1} << 50;

std::size_t difference(std::size_t whole, std::size_t part) {
  return whole > part ? whole - part : 0;
}

} // namespace

/// Under the mutex.
MemoryAccount::Device &MemoryAccount::find(const CudaApi &api, int device) {
  Device &found = devices[device];
  std::size_t free = 0, total = 0;
  if (!found.known && hasLimits() && api.cudaMemGetInfo(&free, &total) == cudaSuccess) {
    found.known = true;
    found.limit = quota.of(total);
    found.left = reserve.of(total);
  }
  return found;
}

bool MemoryAccount::take(const CudaApi &api, std::size_t bytes, int &device) {
  if (api.cudaGetDevice(&device) != cudaSuccess)
    return true; // the call itself returns the error
  std::unique_lock lock(mutex);
  Device &found = find(api, device);
  bool fits = found.limit == 0 || bytes <= difference(found.limit, found.used);
  std::size_t free = 0, total = 0;
  if (fits && found.left != 0 && api.cudaMemGetInfo(&free, &total) == cudaSuccess)
    fits = bytes <= difference(free, found.left);
  if (fits) {
    found.used += bytes;
    found.most = std::max(found.most, found.used);
  } else {
    ++refusals;
  }
  tell(device);
  return fits;
}

/// `taken` bytes were counted for the piece already.
void MemoryAccount::keep(const Piece &piece, std::size_t taken, int device) {
  std::unique_lock lock(mutex);
  Device &found = devices[device];
  found.used = difference(found.used, taken);
  if (piece.handle) {
    found.used += piece.bytes;
    found.most = std::max(found.most, found.used);
    pieces[piece.handle] = {piece.bytes, device};
  }
  tell(device);
}

void MemoryAccount::giveBack(std::size_t bytes, int device) { keep({}, bytes, device); }

MemoryAccount::Kept MemoryAccount::forget(const void *handle) {
  std::unique_lock lock(mutex);
  auto found = pieces.find(handle);
  if (found == pieces.end())
    return {};
  Kept kept = found->second;
  pieces.erase(found);
  Device &device = devices[kept.device];
  device.used = difference(device.used, kept.bytes);
  tell(kept.device);
  return kept;
}

/// An allocation that CUDA refuses makes the error the thread's last one, as the program expects.
cudaError_t MemoryAccount::refuse(const CudaApi &api) {
  InHook inside;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  api.cudaThreadExchangeStreamCaptureMode(&mode);
  void *memory = nullptr;
  if (api.cudaMalloc(&memory, impossible) == cudaSuccess)
    api.cudaFree(memory);
  api.cudaThreadExchangeStreamCaptureMode(&mode);
  return cudaErrorMemoryAllocation;
}

cudaError_t MemoryAccount::info(const CudaApi &api, std::size_t *free, std::size_t *total) {
  InHook inside;
  cudaError_t status = api.cudaMemGetInfo(free, total);
  int device = 0;
  if (!hasLimits() || status != cudaSuccess || api.cudaGetDevice(&device) != cudaSuccess)
    return status;
  std::unique_lock lock(mutex);
  const Device &found = find(api, device);
  *free = difference(*free, found.left);
  if (found.limit != 0) {
    *free = std::min(*free, difference(found.limit, found.used));
    *total = std::min(*total, found.limit);
  }
  return status;
}

void MemoryAccount::clear(int device) {
  std::unique_lock lock(mutex);
  devices[device].used = 0;
  tell(device);
  std::erase_if(pieces, [&](const auto &each) { return each.second.device == device; });
}

void MemoryAccount::showTo(int device, std::function<void(const runtime::MemoryStatus &)> to) {
  std::unique_lock lock(mutex);
  shownDevice = device;
  show = std::move(to);
  tell(device);
}

/// Under the mutex.
void MemoryAccount::tell(int device) {
  if (!show || device != shownDevice)
    return;
  const Device &now = devices[device];
  show({now.used, now.most, now.limit, now.left, refusals});
}

std::string MemoryAccount::statistics() {
  if (!hasLimits())
    return "";
  std::unique_lock lock(mutex);
  std::size_t used = 0, most = 0, limit = 0;
  for (const auto &[number, each] : devices) {
    used += each.used;
    most += each.most;
    limit += each.limit;
  }
  return "memory: " + std::to_string(used) + " bytes, " + std::to_string(most) + " at most" +
         (limit != 0 ? ", of " + std::to_string(limit) : std::string()) + "; " +
         std::to_string(refusals) + " refused";
}

} // namespace tally::hooks
