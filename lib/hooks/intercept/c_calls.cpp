// The C interface of the hooks (tally/hooks.h, tally/request.h).
#include "intercept/wrappers.h"

#include "tally/hooks.h"
#include "tally/request.h"

#include <cstddef>
#include <cstdint>
#include <limits>

using namespace tally::hooks;

extern "C" {

int tally_stream_set_class(void *stream, tally_stream_class streamClass) {
  if (isOff())
    return cudaSuccess;
  return Hooks::shared().streams().setClass(api(), static_cast<cudaStream_t>(stream),
                                            streamClass == TALLY_STREAM_BEST_EFFORT);
}

int tally_stream_set_best_effort_class(void *stream, unsigned bestEffortClass) {
  if (isOff())
    return cudaSuccess;
  return Hooks::shared().streams().setBestEffortClass(api(), static_cast<cudaStream_t>(stream),
                                                      bestEffortClass);
}

int tally_request_begin_v1(cudaStream_t stream, const tally_request_options *options,
                           tally_request *request) {
  if (request)
    *request = 0;
  if (isOff())
    return cudaSuccess;
  if (Settings::get().areWrong)
    return cudaErrorStartupFailure;
  // The size of the first version. Later members are read only where the caller's structure has
  // them.
  constexpr std::size_t least =
      offsetof(tally_request_options, deadline_ns) + sizeof(std::uint64_t);
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (!request || (options && (options->size < least || options->deadline_ns > most)))
    return cudaErrorInvalidValue;
  tally::runtime::Nanoseconds deadline(options ? static_cast<std::int64_t>(options->deadline_ns)
                                               : 0);
  return Hooks::shared().requests().begin(api(), stream, options ? options->name : nullptr,
                                          deadline, request);
}

int tally_request_add_stream_v1(tally_request request, cudaStream_t stream) {
  if (isOff() || request == 0)
    return cudaSuccess;
  return Hooks::shared().requests().add(api(), request, stream);
}

int tally_request_end_v1(tally_request request) {
  if (isOff() || request == 0)
    return cudaSuccess;
  return Hooks::shared().requests().end(request);
}

} // extern "C"
