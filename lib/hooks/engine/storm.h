// For tests: requests that begin and end at a fixed interval, independent of the program.
#ifndef TALLY_LIB_HOOKS_ENGINE_STORM_H
#define TALLY_LIB_HOOKS_ENGINE_STORM_H

#include "engine/activity.h"
#include "engine/run_ahead.h"
#include "tables/cuda_api.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace tally::hooks {

/// A thread that begins and ends a request in a fixed interval, in microseconds
/// (TALLY_YIELD_EVERY_US). Where work may run ahead, the thread also plays a process that comes and
/// goes, for some 16 requests each time.
class Storm {
public:
  /// `ahead`: nullptr where no work runs ahead. All arguments outlive this object.
  Storm(const CudaApi &api, Activity &activity, RunAhead *ahead, std::uint32_t everyMicroseconds);
  ~Storm() { stop(); }
  Storm(const Storm &) = delete;
  Storm &operator=(const Storm &) = delete;
  void stop();

private:
  void run(std::uint32_t everyMicroseconds);

  const CudaApi &api;
  Activity &activity;
  RunAhead *const ahead;
  std::atomic<bool> isOver{false};
  std::thread thread;
};

} // namespace tally::hooks

#endif
