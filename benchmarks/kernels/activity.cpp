#include "activity.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

namespace activity {

namespace {

constexpr std::size_t bufferBytes = std::size_t{8} << 20;

struct State {
  std::mutex mutex;
  Listener listener{};
  std::size_t dropped = 0;
};

/// Never destroyed: CUPTI's threads may deliver records while the process ends.
State &state() {
  static auto &all = *new State;
  return all;
}

bool done(CUptiResult result, const char *call) {
  if (result == CUPTI_SUCCESS)
    return true;
  const char *text = nullptr;
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "activity records: %s: %s\n", call, text ? text : "unknown error");
  return false;
}

void CUPTIAPI giveBuffer(std::uint8_t **buffer, std::size_t *bytes, std::size_t *mostRecords) {
  *buffer = static_cast<std::uint8_t *>(std::aligned_alloc(8, bufferBytes));
  *bytes = *buffer ? bufferBytes : 0;
  *mostRecords = 0; // as many as fit
}

void CUPTIAPI takeBuffer(CUcontext context, std::uint32_t stream, std::uint8_t *buffer, std::size_t,
                         std::size_t valid) {
  std::unique_lock lock(state().mutex);
  CUpti_Activity *record = nullptr;
  while (valid != 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    state().listener.take(*record);
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
    state().dropped += dropped;
  std::free(buffer);
}

std::uint64_t CUPTIAPI monotonicNow() {
  std::timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void end() {
  done(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  std::unique_lock lock(state().mutex);
  state().listener.end(state().dropped);
}

} // namespace

void start(Listener listener, bool monotonic, std::initializer_list<CUpti_ActivityKind> kinds) {
  state().listener = listener;
  if (monotonic && !done(cuptiActivityRegisterTimestampCallback(monotonicNow),
                         "cuptiActivityRegisterTimestampCallback"))
    return;
  if (!done(cuptiActivityRegisterCallbacks(giveBuffer, takeBuffer),
            "cuptiActivityRegisterCallbacks"))
    return;
  for (CUpti_ActivityKind kind : kinds)
    if (!done(cuptiActivityEnable(kind), "cuptiActivityEnable"))
      return;
  std::atexit(end);
}

} // namespace activity
