// What copies need of mbarrier objects.
#ifndef TALLY_LIB_EMULATOR_MBARRIER_H
#define TALLY_LIB_EMULATOR_MBARRIER_H

#include "decoder.h"

namespace tally::emulator {

/// complete_tx on the object at this host address, in the name of `lane`.
Status completeTransaction(Warp &warp, const Op &op, std::uint32_t lane, std::uint64_t host,
                           std::uint64_t bytes);

/// Emits a complete_tx of `bytes` on the object, in the cluster's shared memory, that the address
/// names.
void emitCompleteTransaction(FunctionDecoder &decoder, const ptx::Operand &address,
                             std::uint32_t bytes);

} // namespace tally::emulator

#endif
