#include "awaited_reads.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"

namespace tally::ptx {
namespace {

bool isPrivateSpace(const Instruction &instruction) {
  return llvm::any_of(instruction.modifiers, [](std::string_view each) {
    return each == "local" || each == "const" || each.starts_with("shared") ||
           each.starts_with("param");
  });
}

bool saysItIsStrong(const Instruction &load) {
  for (const char *strength : {"volatile", "relaxed", "acquire", "mmio", "cv", "cg"})
    if (load.has(strength))
      return true;
  return false;
}

/// For an access that names its space and its scope.
Awaits awaitedByAccess(const Instruction &instruction, bool isStrong) {
  if (isPrivateSpace(instruction))
    return Awaits::Nothing;
  if (!isStrong)
    return Awaits::Aided;
  return instruction.has("cta") ? Awaits::OwnBlock : Awaits::Others;
}

Awaits awaitedByCopy(const Instruction &cp) {
  CopySpaces spaces = copySpacesOf(cp);
  return spaces.moves && !spaces.from.starts_with("shared") ? Awaits::Others : Awaits::Nothing;
}

} // namespace

Awaits awaitedBy(const Instruction &instruction) {
  std::string_view opcode = instruction.opcode;
  switch (intakeOf(instruction)) {
  case Intake::Cached:
    if (opcode == "tex" || opcode == "tld4")
      return Awaits::Aided;
    if (opcode == "wmma" && !instruction.has("load"))
      return Awaits::Nothing;
    return awaitedByAccess(instruction, saysItIsStrong(instruction));
  case Intake::Renewed:
    if (opcode == "cp")
      return awaitedByCopy(instruction);
    if (opcode == "multimem" && !instruction.has("ld_reduce"))
      return Awaits::Nothing;
    return awaitedByAccess(instruction, true);
  case Intake::Anything:
    return opcode == "call" ? Awaits::Nothing : Awaits::Others;
  case Intake::Operands:
  case Intake::Carry:
  case Intake::Lanes:
  case Intake::Own:
    break;
  }
  return Awaits::Nothing;
}

bool isPollingAid(const Instruction &instruction) {
  if (instruction.opcode == "nanosleep")
    return true;
  if (instruction.has("cta"))
    return false;
  if (instruction.opcode == "fence" || instruction.opcode == "membar")
    return !instruction.has("proxy");
  bool reads = instruction.opcode == "ld" || instruction.opcode == "atom" ||
               instruction.opcode == "multimem";
  return reads && !isPrivateSpace(instruction) &&
         (instruction.has("acquire") || instruction.has("acq_rel"));
}

CopySpaces copySpacesOf(const Instruction &cp) {
  CopySpaces spaces;
  spaces.moves = llvm::none_of(cp.modifiers, [](std::string_view each) {
    return each == "mbarrier" || each == "prefetch" || each == "commit_group" ||
           each.starts_with("wait_");
  });
  bool hasTarget = false;
  for (std::string_view each : cp.modifiers) {
    if (each != "global" && !each.starts_with("shared"))
      continue;
    (hasTarget ? spaces.from : spaces.to) = each;
    hasTarget = true;
  }
  return spaces;
}

} // namespace tally::ptx
