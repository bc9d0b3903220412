#include "shared_writes.h"

#include "awaited_reads.h"
#include "string_ref.h"
#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

#include <charconv>

namespace tally::ptx {
namespace {

bool isPrivate(const Instruction &instruction) {
  return llvm::any_of(instruction.modifiers, [](std::string_view each) {
    return each == "local" || each.starts_with("shared") || each.starts_with("param");
  });
}

} // namespace

bool mayWriteShared(const Instruction &instruction) {
  if (!isKnown(instruction) || instruction.opcode == "call")
    return true;
  if (instruction.opcode == "cp")
    return copySpacesOf(instruction).to == "global";
  // The state space that it names is the space of its source.
  if (instruction.opcode == "multimem" && instruction.has("cp"))
    return true;
  bool writes = llvm::StringSwitch<bool>(ref(instruction.opcode))
                    .Cases({"st", "atom", "red", "multimem", "sust", "sured", "tensormap"}, true)
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
    return instruction.opcode != "sust" && instruction.opcode != "wmma" &&
           instruction.opcode != "tensormap";
  for (const char *strength : {"volatile", "relaxed", "release", "mmio", "cg", "wt", "async"})
    if (instruction.has(strength))
      return true;
  return false;
}

bool mayWriteBlockMemory(const Instruction &instruction) {
  if (instruction.opcode == "cp")
    return !(copySpacesOf(instruction).to == "global");
  static constexpr std::string_view writers[] = {
      "st",       "atom", "red",     "call",      "stmatrix",
      "mbarrier", "wmma", "tcgen05", "tensormap", "clusterlaunchcontrol"};
  bool writes = llvm::is_contained(writers, instruction.opcode) || !isKnown(instruction);
  return writes && !instruction.has("global") && !instruction.has("local") &&
         !llvm::any_of(instruction.modifiers,
                       [](std::string_view each) { return each.starts_with("param"); });
}

const Operand *singleAddressOf(const Instruction &access) {
  for (const Operand &operand : access.operands)
    if (operand.kind == OperandKind::Address)
      return operand.children.size() == 1 ? &operand : nullptr;
  return nullptr;
}

std::int64_t accessedBytes(const Instruction &access) {
  if (access.modifiers.empty())
    return 0;
  std::string_view type = access.modifiers.back();
  std::int64_t bits = 0;
  const char *end = type.data() + type.size();
  if (type.size() < 2 || std::from_chars(type.data() + 1, end, bits).ptr != end)
    return 0;
  return bits / 8 * (access.has("v2") ? 2 : access.has("v4") ? 4 : access.has("v8") ? 8 : 1);
}

} // namespace tally::ptx
