#include "instruction_cost.h"

#include "tally/ptx/analysis/opcodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"

namespace tally::ptx {
namespace {

// An SM has four schedulers of 16 warps. With 8 of them busy, an instruction that issues in one
// cycle holds its warp for 8. Memory accesses have the price of busy memory: an SM's share of 4
// TB/s is 18 bytes a cycle, so 128 bytes for a warp, with 32 warps reading, take some 200 cycles.
constexpr std::uint64_t issue = 8, shared = 32, global = 200, store = 100, atomic = 300,
                        meeting = 100, wide = 48, special = 32, divide = 160, called = 500;

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

/// Limit on remembered loads, so that a long block costs no more for each load.
constexpr std::size_t mostSeen = 64;

bool isOnChip(const Instruction &instruction) {
  return llvm::any_of(instruction.modifiers, [](std::string_view each) {
    return each.starts_with("shared") || each == "local";
  });
}
bool isQuick(const Instruction &instruction) {
  return instruction.has("param") || instruction.has("const") || isOnChip(instruction);
}

std::uint64_t ofMemory(const Instruction &instruction, std::uint64_t outside) {
  if (instruction.has("param") || instruction.has("const"))
    return issue;
  if (isOnChip(instruction))
    return shared * widthOf(instruction) / 2 + shared / 2;
  return outside * widthOf(instruction);
}

/// Whether the instruction makes a warp wait for memory or for other threads. Fewer busy warps do
/// not shorten such an instruction.
bool waits(const Instruction &instruction) {
  llvm::StringRef opcode(instruction.opcode.data(), instruction.opcode.size());
  if (isBlockBarrier(instruction))
    return true;
  if (opcode == "ld" || opcode == "ldu" || opcode == "st")
    return !isQuick(instruction);
  return llvm::StringSwitch<bool>(opcode)
      .Cases({"atom", "red", "tex", "tld4", "suld", "sust", "sured"}, true)
      .Cases({"membar", "fence", "nanosleep", "call"}, true)
      .Default(false);
}

/// Whether the instruction loads one word of shared memory at a register or a variable plus an
/// offset.
bool loadsSharedWord(const Instruction &instruction) {
  return instruction.opcode == "ld" && instruction.has("shared") && !instruction.has("volatile") &&
         widthOf(instruction) == 1 && instruction.operands.size() == 2 &&
         instruction.operands[1].kind == OperandKind::Address &&
         llvm::is_contained({OperandKind::Register, OperandKind::Symbol},
                            instruction.operands[1].children[0].kind);
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

/// ptxas loads neighbouring words by one instruction. Where all threads read the same words, that
/// is the whole cost; elsewhere the number of bytes to read stays the same.
std::uint64_t BlockCosts::of(const CfgBlock &block) const {
  struct Words {
    const Operand *base;
    std::uint64_t sixteenBytes;
  };
  llvm::SmallVector<Words, 16> seen;
  std::uint64_t scaled = 0, whole = 0;
  for (std::uint32_t statement : block.instructions) {
    const Instruction &instruction = cfg.instruction(statement);
    std::uint64_t cycles = cyclesOf(instruction);
    if (loadsSharedWord(instruction)) {
      const Operand &address = instruction.operands[1], &base = address.children[0];
      bool isRead = llvm::any_of(seen, [&](const Words &each) {
        return each.base->text == base.text && each.sixteenBytes == address.bits / 16;
      });
      if (isRead)
        cycles = isUniform(base) ? 0 : shared / 2;
      else if (seen.size() < mostSeen)
        seen.push_back({&base, address.bits / 16});
    }
    forEachWrittenRegister(instruction, [&](const Operand &written) {
      llvm::erase_if(seen, [&](const Words &each) { return each.base->reg == written.reg; });
    });
    if (isBlockBarrier(instruction) || (instruction.opcode == "st" && isOnChip(instruction)))
      seen.clear();
    (waits(instruction) ? whole : scaled) += cycles;
  }
  return whole + scaled * warps / usualWarps;
}

bool BlockCosts::isUniform(const Operand &base) const {
  return base.kind == OperandKind::Symbol || uniformity.ofRegister(base.reg) == Variation::None;
}

} // namespace tally::ptx
