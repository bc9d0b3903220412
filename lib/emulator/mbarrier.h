// Operations on mbarrier objects for copies.
#ifndef TALLY_LIB_EMULATOR_MBARRIER_H
#define TALLY_LIB_EMULATOR_MBARRIER_H

#include "decoder.h"

namespace tally::emulator {

/// Does complete_tx on the object at this host address; a fault names `lane`.
Status completeTransaction(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t host,
                           std::uint64_t bytes);

/// Emits a complete_tx of `bytes` on the object at the address, in the cluster's shared memory.
void emitCompleteTransaction(FunctionDecoder &decoder, const ptx::Operand &address,
                             std::uint32_t bytes);

} // namespace tally::emulator

#endif
