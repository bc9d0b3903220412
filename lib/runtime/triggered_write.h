// SignalDevice::writeValueWhen() by the driver's operations on memory in stream order.
#ifndef TALLY_LIB_RUNTIME_TRIGGERED_WRITE_H
#define TALLY_LIB_RUNTIME_TRIGGERED_WRITE_H

#include <cuda.h>

#include <array>
#include <cstdint>

namespace tally::runtime {

/// For cuStreamBatchMemOp: a wait until the word at `trigger` is at least `reached`, then a store
/// of `value`. All are device addresses.
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

} // namespace tally::runtime

#endif
