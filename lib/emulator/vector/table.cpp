#include "tables.h"

namespace tally::emulator {

#define TALLY_TABLE_NAME_(isa) isa##Handlers
#define TALLY_TABLE_NAME(isa) TALLY_TABLE_NAME_(isa)

const VectorHandlers &TALLY_TABLE_NAME(TALLY_EMULATOR_ISA)() {
  using namespace TALLY_EMULATOR_ISA;
  static constexpr VectorHandlers table{integerHandler, floatHandler,  compareHandler,
                                        moveHandler,    selectHandler, convertHandler,
                                        loadHandler,    storeHandler};
  return table;
}

} // namespace tally::emulator
