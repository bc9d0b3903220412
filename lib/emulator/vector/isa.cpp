#include "select.h"

namespace tally::emulator {

const VectorHandlers &vectorHandlers() {
#ifdef TALLY_EMULATOR_HASWELL
  static const bool haswell = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (haswell)
    return haswellHandlers();
#endif
  return plainHandlers();
}

} // namespace tally::emulator
