#include "instruction_cost.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

// An SM has four schedulers of 16 warps. With 8 of them busy an instruction that issues in one
// cycle holds its warp for 8. Memory is priced by what it costs when many read: an SM's share of 4
// TB/s is 18 bytes a cycle, so 128 bytes for a warp, with 32 warps at it, are some 200 cycles.
constexpr std::uint64_t issue = 8, shared = 32, global = 200, store = 100, atomic = 300,
                        meeting = 100, wide = 64, special = 32, divide = 160, called = 500;

std::uint64_t widthOf(const Instruction &instruction) {
  std::uint64_t words = instruction.has("v8")   ? 8
                        : instruction.has("v4") ? 4
                        : instruction.has("v2") ? 2
                                                : 1;
  for (std::string_view each : instruction.modifiers)
    if (each.ends_with("64") || each.ends_with("128"))
      return each.ends_with("64") ? 2 * words : 4 * words;
  return words;
}

std::uint64_t ofMemory(const Instruction &instruction, std::uint64_t outside) {
  if (instruction.has("param") || instruction.has("const"))
    return issue;
  for (std::string_view each : instruction.modifiers)
    if (each.starts_with("shared") || each == "local")
      return shared * widthOf(instruction) / 2 + shared / 2;
  return outside * widthOf(instruction);
}

bool dividesIntegers(const Instruction &instruction) {
  return !instruction.has("f32") && !instruction.has("f64");
}

} // namespace

std::uint64_t cyclesOf(const Instruction &instruction) {
  llvm::StringRef opcode(instruction.opcode.data(), instruction.opcode.size());
  if (isBlockBarrier(instruction))
    return meeting;
  if (opcode == "ld" || opcode == "ldu")
    return ofMemory(instruction, global);
  if (opcode == "st")
    return ofMemory(instruction, store);
  if (opcode == "div" || opcode == "rem")
    return instruction.has("approx") ? special : dividesIntegers(instruction) ? divide / 2 : divide;
  std::uint64_t cycles =
      llvm::StringSwitch<std::uint64_t>(opcode)
          .Cases({"atom", "red", "tex", "tld4", "suld", "sust", "sured"}, atomic)
          .Cases({"mma", "wmma", "wgmma", "tcgen05", "ldmatrix", "stmatrix"}, wide)
          .Cases({"rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"}, special)
          .Cases({"shfl", "vote", "match", "redux", "bar"}, special)
          .Cases({"membar", "fence", "nanosleep"}, atomic)
          .Case("cp", meeting)
          .Case("call", called)
          .Cases({"pragma", "brkpt"}, 0)
          .Default(issue);
  return cycles * (cycles == issue && instruction.has("f64") ? 2 : 1);
}

} // namespace tally::ptx
