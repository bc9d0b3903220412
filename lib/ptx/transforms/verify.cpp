#include "tally/ptx/transforms/verify.h"

#include "verify_protocol.h"

#include "tally/bundle/abi.h"
#include "tally/ptx/analysis/opcodes.h"
#include "tally/ptx/syntax/parser.h"

#include <fmt/format.h>

namespace tally::ptx {
namespace {

/// Grid registers that `function` reads into registers of the user's.
std::optional<std::string> strayGridRegister(const Function &function) {
  for (const Statement &statement : function.body) {
    if (statement.kind != StatementKind::Instruction)
      continue;
    const Instruction &instruction = statement.instruction;
    bool isTallys =
        !instruction.operands.empty() && instruction.operands[0].symbol.starts_with("%tally_");
    std::optional<std::string> stray;
    for (const Operand &operand : instruction.operands)
      forEachOperand(operand, [&](const Operand &each) {
        std::string_view name = specialRegisterName(each);
        if (each.kind == OperandKind::SpecialRegister && !isTallys &&
            (name == "ctaid" || name == "nctaid" || name == "clusterid" || name == "nclusterid"))
          stray = std::string(statement.text);
      });
    if (stray)
      return stray;
  }
  return std::nullopt;
}

std::optional<std::string> checkParameters(const Function &user, const Function &variant) {
  if (variant.parameters.size() != user.parameters.size() + 1)
    return "it does not have one parameter more than the user's kernel";
  for (std::size_t i = 0; i != user.parameters.size(); ++i)
    if (variant.parameters[i].paramOffset != user.parameters[i].paramOffset ||
        variant.parameters[i].sizeInBytes != user.parameters[i].sizeInBytes)
      return fmt::format("parameter {} is not where the user's is", i);
  const Variable &own = variant.parameters.back();
  if (own.paramOffset != (user.parameterBytes() + 7) / 8 * 8 ||
      own.sizeInBytes != sizeof(tally_launch_params))
    return "tally's parameters are not where the runtime writes them";
  return std::nullopt;
}

} // namespace

std::optional<std::string> verifyVariants(const Module &module,
                                          const std::vector<RewrittenKernel> &kernels) {
  std::string text = textWithVariants(module, kernels);
  if (!std::string_view(text).starts_with(module.source()))
    return "the user's text was changed";
  auto parsed = parse(text);
  if (auto *diagnostic = std::get_if<Diagnostic>(&parsed))
    return fmt::format("the variants do not parse: {}, near: {}", diagnostic->message,
                       text.substr(diagnostic->offset, 60));
  const Module &again = std::get<Module>(parsed);
  for (const RewrittenKernel &kernel : kernels)
    for (const Variant &variant : kernel.variants) {
      if (variant.verdict.status != Status::Emitted)
        continue;
      for (std::size_t i = 0; i != variant.entries.size(); ++i) {
        Kind kind = variant.verdict.kind;
        std::string name = bundle::entryName(kernel.layout.name, kind, i == 1);
        const Function *entry = again.function(name);
        if (!entry)
          return fmt::format("there is no entry {}", name);
        if (auto broken = checkParameters(*kernel.function, *entry))
          return fmt::format("{}: {}", name, *broken);
        if (auto broken = checkProtocol(again, *kernel.function, kind, *entry))
          return fmt::format("{}: {}", name, *broken);
        bool keepsGrid = kind == Kind::Guard && i == 0 && !kernel.layout.guardTakesTickets();
        if (auto stray = keepsGrid ? std::nullopt : strayGridRegister(*entry))
          return fmt::format("{}: it still reads a physical grid register: {}", name, *stray);
      }
    }
  return std::nullopt;
}

} // namespace tally::ptx
