#include "shared_writes.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

llvm::StringRef ref(std::string_view text) { return llvm::StringRef(text.data(), text.size()); }

bool isPrivate(const Instruction &instruction) {
  return llvm::any_of(instruction.modifiers, [](std::string_view each) {
    return each == "local" || each.starts_with("shared") || each.starts_with("param");
  });
}

/// Of a copy's two spaces the first is the destination's.
bool copiesToGlobal(const Instruction &instruction) {
  for (std::string_view each : instruction.modifiers)
    if (each == "global" || each.starts_with("shared"))
      return each == "global";
  return false;
}

} // namespace

bool mayWriteShared(const Instruction &instruction) {
  if (!isKnownOpcode(instruction.opcode) || instruction.opcode == "call")
    return true;
  if (instruction.opcode == "cp")
    return copiesToGlobal(instruction);
  bool writes = llvm::StringSwitch<bool>(ref(instruction.opcode))
                    .Cases({"st", "atom", "red", "multimem", "sust", "sured"}, true)
                    .Case("wmma", instruction.has("store"))
                    .Default(false);
  return writes && !isPrivate(instruction);
}

bool isStrongWrite(const Instruction &instruction) {
  if (!mayWriteShared(instruction) || instruction.has("cta"))
    return false;
  if (instruction.opcode == "cp")
    return instruction.has("reduce");
  if (instruction.opcode != "st")
    return instruction.opcode != "sust" && instruction.opcode != "wmma";
  for (const char *strength : {"volatile", "relaxed", "release", "mmio", "cg", "wt", "async"})
    if (instruction.has(strength))
      return true;
  return false;
}

} // namespace tally::ptx
