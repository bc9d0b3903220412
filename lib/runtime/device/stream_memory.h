// SignalDevice::writeValueWhen() and StreamDevice::waitForWords() through the driver's operations
// on memory in stream order (cuStreamBatchMemOp).
#ifndef TALLY_LIB_RUNTIME_DEVICE_STREAM_MEMORY_H
#define TALLY_LIB_RUNTIME_DEVICE_STREAM_MEMORY_H

#include "tally/runtime/device.h"

#include <cuda.h>

#include <array>
#include <cassert>
#include <cstdint>
#include <span>

namespace tally::runtime {

/// Type of cuStreamBatchMemOp.
using BatchMemOp = CUresult (*)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);

/// A wait until the word at `trigger` is at least `reached`, then a store of `value` to `to`.
/// `trigger` and `to` are device addresses.
inline std::array<CUstreamBatchMemOpParams, 2> triggeredWrite(std::uint64_t trigger,
                                                              std::uint64_t reached,
                                                              std::uint64_t to,
                                                              std::uint64_t value) {
  std::array<CUstreamBatchMemOpParams, 2> both{};
  both[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
  both[0].waitValue.address = static_cast<CUdeviceptr>(trigger);
  both[0].waitValue.value64 = reached;
  both[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  both[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  both[1].writeValue.address = static_cast<CUdeviceptr>(to);
  both[1].writeValue.value64 = value;
  both[1].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return both;
}

constexpr std::size_t mostWordWaits = 2; ///< words of one call

/// A wait for each of the words; only the first words.size() elements are used.
inline std::array<CUstreamBatchMemOpParams, mostWordWaits>
wordWaits(std::span<const WordWait> words) {
  assert(words.size() <= mostWordWaits);
  std::array<CUstreamBatchMemOpParams, mostWordWaits> all{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    all[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    all[i].waitValue.address = static_cast<CUdeviceptr>(words[i].address);
    all[i].waitValue.value = words[i].value;
    all[i].waitValue.flags = words[i].until == WordWait::Until::Equal ? CU_STREAM_WAIT_VALUE_EQ
                                                                      : CU_STREAM_WAIT_VALUE_GEQ;
  }
  return all;
}

} // namespace tally::runtime

#endif
