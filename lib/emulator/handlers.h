// Handlers outside the vector folder that several decoders use.
#ifndef TALLY_LIB_EMULATOR_HANDLERS_H
#define TALLY_LIB_EMULATOR_HANDLERS_H

#include "op.h"
#include "types.h"

namespace tally::emulator {

/// Faults with the text of the unimplemented feature.
Status unimplemented(Warp &warp, const Op &op, std::uint32_t mask);
/// Computes nothing: fences within one host thread, prefetches, hints.
Status nothing(Warp &warp, const Op &op, std::uint32_t mask);

Status returnFromFunction(Warp &warp, const Op &op, std::uint32_t mask);
Status exitThread(Warp &warp, const Op &op, std::uint32_t mask);

/// Slot 0 (64-bit): thread-instructions of the block so far, and host nanoseconds.
Status readClock(Warp &warp, const Op &op, std::uint32_t mask);
Status readGlobalTimer(Warp &warp, const Op &op, std::uint32_t mask);

/// Slot 0 (f32) from slot 1 (f16 or bf16); exact.
Handler halfToFloatHandler(Type type);

/// Slot 0: the address of the frame's local memory plus the immediate, in the local window.
Status localAddress32(Warp &warp, const Op &op, std::uint32_t mask);
Status localAddress64(Warp &warp, const Op &op, std::uint32_t mask);

} // namespace tally::emulator

#endif
