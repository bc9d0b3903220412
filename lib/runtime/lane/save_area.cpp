// The memory into which blocks of checkpoint variants save themselves: how large it is, and when
// the lane takes a larger one.
#include "base/spin.h"
#include "lane/lane.h"

#include <algorithm>
#include <cassert>

namespace tally::runtime {

/// A save area for the launch; false when that has to wait until nothing uses the one there is, and
/// where none can be had: the launch takes another kind then, and so do all as large ones.
bool Lane::growSaveArea(Item &item, const Batch &batch) {
  if (!batches.empty() || !batch.items.empty())
    return false;
  assert(!item.operation->progress->hasSaved());
  if (allocateSaveArea(item.launch.saveBytes))
    return true;
  if (!item.operation->begun) {
    item.operation->progress.reset();
    item.operation->plan.reset();
  }
  return false;
}

/// While nothing uses the one there is. Where none can be had, no launch that needs as much gets
/// the kind any more.
bool Lane::allocateSaveArea(std::uint64_t least) {
  if (takeSaveArea(std::max(least, std::min(2 * saveAreaBytes, maxSaveBytes))))
    return true;
  maxSaveBytes = least - 1;
  counts.saveAreasRefused.fetch_add(1);
  return false;
}

bool Lane::takeSaveArea(std::uint64_t bytes) {
  constexpr std::uint64_t headers = saveHeaderBytes(maxSavedBlocks);
  Result<DevicePtr> area = own.allocate(headers + bytes);
  if (!area)
    return false;
  // Then the device fails, as the next call for a launch says; who plans still holds operations.
  if (!clear(*area, headers))
    return false;
  saveArea = *area + headers;
  saveAreaBytes = bytes;
  return true;
}

/// Ahead of what is sent from now on. Not on the stream before its first kernel: on an H200 each
/// kernel of a stream that has begun with a fill of a megabyte begins 1 us later, for good.
Result<void> Lane::clear(DevicePtr memory, std::uint64_t bytes) {
  if (counts.physicalLaunches.load() != 0) {
    Result<void> behind = continueOn(home());
    return behind ? device.fill(current, memory, std::byte{0}, bytes) : behind;
  }
  Result<StreamId> other = device.createStream(StreamPriority::Low);
  if (!other)
    return other.error();
  Result<void> cleared = device.fill(*other, memory, std::byte{0}, bytes);
  if (cleared)
    cleared = awaitShortly(*other);
  Result<void> ended = device.destroyStream(*other);
  return cleared ? ended : cleared;
}

/// What is sent from now on comes behind what is on the stream, for which this waits only as long
/// as it should take: the GPU may be full of kernels that wait for the calling thread.
Result<void> Lane::awaitShortly(StreamId other) {
  constexpr int mostLooks = 10000; // of a microsecond or so
  for (int look = 0; look < mostLooks; ++look) {
    Result<bool> idle = device.isIdle(other);
    if (!idle)
      return idle.error();
    if (*idle)
      return {};
    pauseProcessor();
  }
  if (Result<bool> behind = device.waitFor(stream, other); !behind)
    return behind.error();
  return {};
}

/// Before there are requests: the driver may take a tenth of a second for memory, and launches of
/// the process wait for it. What all SMs hold is enough but for kernels with much local memory;
/// where it cannot be had now the first launch that needs an area asks again.
void Lane::takeFirstSaveArea() {
  const DeviceInfo &has = device.info();
  if (has.registersPerSm == 0 || !contains(options.kinds, Kind::Checkpoint))
    return;
  std::uint64_t perSm =
      std::uint64_t{has.registersPerSm} * sizeof(std::uint32_t) + has.sharedBytesPerSm;
  static_cast<void>(takeSaveArea(std::min(has.smCount * perSm, maxSaveBytes)));
}

} // namespace tally::runtime
