#include "engine/staging.h"

#include "state/own_thread.h"

#include <cstring>
#include <thread>

namespace tally::hooks {

namespace {

/// A copy in units of 16 bytes needs both ends at the same alignment.
constexpr std::size_t unit = 16;

bool mayBe(cudaMemcpyKind kind, cudaMemcpyKind wanted) {
  return kind == wanted || kind == cudaMemcpyDefault;
}

} // namespace

std::optional<StagingRing::Piece>
StagingRing::take(std::size_t size, const std::function<bool(std::uint64_t)> &isOver) {
  std::unique_lock lock(mutex);
  while (!taken.empty() && taken.front().ticket && isOver(*taken.front().ticket)) {
    taken.pop_front();
    ++firstNumber;
  }
  // The free part goes from the end of the newest piece to the begin of the oldest, round the
  // ring's end.
  std::size_t begin = taken.empty() ? 0 : taken.back().end;
  std::size_t oldest = taken.empty() ? bytes : taken.front().begin;
  bool isWrapped = begin <= oldest && !taken.empty();
  if (begin + size > (isWrapped ? oldest : bytes)) {
    if (isWrapped || size > oldest || taken.empty())
      return std::nullopt;
    begin = 0;
  }
  taken.push_back({begin, begin + size, std::nullopt});
  return Piece{begin, firstNumber + taken.size() - 1};
}

void StagingRing::keepUntil(const Piece &piece, std::uint64_t ticket) {
  std::unique_lock lock(mutex);
  taken[piece.number - firstNumber].ticket = ticket;
}

bool Staging::isPageable(const void *pointer) const {
  cudaPointerAttributes attributes{};
  return pointer && api.cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

/// Allocated at the first use, on a thread of its own: a failing call leaves no error behind that
/// the application would find.
std::byte *Staging::memory() {
  std::unique_lock lock(allocating);
  if (!pinned && !cannotAllocate && !captures.any()) {
    std::thread([&] {
      beOnOwnThread(api, own.deviceNumber());
      cannotAllocate = api.cudaHostAlloc(&pinned, capacity, cudaHostAllocPortable) != cudaSuccess;
    }).join();
    if (cannotAllocate)
      pinned = nullptr;
  }
  return static_cast<std::byte *>(pinned);
}

std::optional<StagedCopy> Staging::begin(void *to, const void *from, std::size_t bytes,
                                         cudaMemcpyKind kind) {
  if (bytes == 0 || bytes > most)
    return std::nullopt;
  bool toDevice =
      mayBe(kind, cudaMemcpyHostToDevice) && isPageable(from) && own.isWithin(to, bytes);
  bool toHost = !toDevice && mayBe(kind, cudaMemcpyDeviceToHost) && isPageable(to) &&
                own.isWithin(from, bytes);
  std::byte *base = toDevice || toHost ? memory() : nullptr;
  if (!base)
    return std::nullopt;
  auto piece =
      ring.take(bytes + unit, [this](std::uint64_t ticket) { return queue.isOver(ticket); });
  if (!piece)
    return std::nullopt;
  const void *onDevice = toDevice ? to : from;
  std::size_t shift = reinterpret_cast<std::uintptr_t>(onDevice) % unit;
  StagedCopy copy;
  copy.piece = *piece;
  copy.toHost = toHost;
  copy.memory = base + piece->begin + shift;
  void *target = toHost ? copy.memory : to;
  const void *source = toHost ? from : copy.memory;
  std::optional<OwnLaunch> launch = own.launchCopy(target, source, bytes);
  if (!launch) {
    ring.keepUntil(*piece, 0);
    return std::nullopt;
  }
  copy.launch = std::move(*launch);
  copy.run = [this, target, source, bytes, toHost](cudaStream_t on) {
    return api.cudaMemcpyAsync(target, source, bytes,
                               toHost ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, on);
  };
  if (toDevice)
    std::memcpy(copy.memory, from, bytes);
  return copy;
}

} // namespace tally::hooks
