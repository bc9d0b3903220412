#include "decoder.h"

namespace tally::emulator {

Type lastType(const ptx::Instruction &instruction) {
  for (std::size_t i = instruction.modifiers.size(); i-- > 0;)
    if (Type type = typeNamed(instruction.modifiers[i]); type != Type::None)
      return type;
  return Type::None;
}

Type typeBeforeLast(const ptx::Instruction &instruction) {
  bool seen = false;
  for (std::size_t i = instruction.modifiers.size(); i-- > 0;)
    if (Type type = typeNamed(instruction.modifiers[i]); type != Type::None) {
      if (seen)
        return type;
      seen = true;
    }
  return Type::None;
}

Space spaceOf(const ptx::Instruction &instruction) {
  for (std::string_view each : instruction.modifiers) {
    if (each == "global" || each == "const")
      return Space::Global;
    if (each == "shared" || each == "shared::cta")
      return Space::Shared;
    if (each == "shared::cluster")
      return Space::SharedCluster;
    if (each == "local")
      return Space::Local;
    if (each == "param" || each.starts_with("param::"))
      return Space::Parameter;
  }
  return Space::Generic;
}

} // namespace tally::emulator
