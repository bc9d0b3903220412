// The streams that the hooks have made for lanes.
#ifndef TALLY_LIB_HOOKS_STATE_OWN_STREAMS_H
#define TALLY_LIB_HOOKS_STATE_OWN_STREAMS_H

#include "state/api_calls.h"
#include "state/streams.h"

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>

namespace tally::hooks {

/// Thread-safe.
class OwnStreams {
public:
  StreamState &add(const CudaApi &api, cudaStream_t handle, int device) {
    std::unique_lock lock(mutex);
    StreamState &made = streams.emplace_back();
    made.handle = handle;
    made.api = &api;
    made.kind = StreamKind::NonBlocking;
    made.device = device;
    made.isOwn = true;
    count = streams.size();
    return made;
  }
  void remove(const StreamState &stream) {
    std::unique_lock lock(mutex);
    streams.remove_if([&](const StreamState &own) { return &own == &stream; });
    count = streams.size();
  }
  std::size_t size() const { return count.load(); }
  Result<void> synchronize(const CudaApi &api) {
    std::unique_lock lock(mutex);
    for (const StreamState &own : streams)
      TALLY_API_TRY(api, cudaStreamSynchronize, own.handle);
    return {};
  }

private:
  std::mutex mutex;
  std::list<StreamState> streams;
  std::atomic<std::size_t> count{0};
};

} // namespace tally::hooks

#endif
