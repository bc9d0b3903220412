// The selectors of one build of this folder, by file.
#ifndef TALLY_LIB_EMULATOR_VECTOR_TABLES_H
#define TALLY_LIB_EMULATOR_VECTOR_TABLES_H

#include "select.h"

#ifndef TALLY_EMULATOR_ISA
#define TALLY_EMULATOR_ISA plain
#endif

namespace tally::emulator::TALLY_EMULATOR_ISA {

Handler integerHandler(IntegerOp op, Type type);
Handler bitHandler(IntegerOp op, Type type);
Handler floatHandler(FloatOp op, Type type, std::uint8_t flags);
Handler compareHandler(Comparison comparison, Type type, bool flush);
Handler moveHandler(std::uint32_t bytes);
Handler selectHandler(std::uint32_t bytes);
Handler convertHandler(Type to, Type from);
Handler loadHandler(Type type, std::uint32_t registerBytes, std::uint32_t count);
Handler storeHandler(Type type, std::uint32_t registerBytes, std::uint32_t count);

} // namespace tally::emulator::TALLY_EMULATOR_ISA

#endif
