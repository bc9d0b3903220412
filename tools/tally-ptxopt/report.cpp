#include "report.h"

#include "occupancy.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tally::ptxopt {
namespace {

/// Figures of one variant on one architecture.
struct Cost {
  std::uint32_t userRegisters = 0, registers = 0, spills = 0;
  std::uint32_t userBlocks = 0, blocks = 0; ///< per SM
};

/// Threads of a block as the kernel declares them, or 256.
std::uint32_t threadsOf(const ptx::Function &function) {
  for (const char *name : {"reqntid", "maxntid"})
    if (const ptx::HeaderDirective *directive = function.directive(name)) {
      std::uint64_t product = 1;
      for (std::uint64_t extent : directive->values)
        product *= std::clamp<std::uint64_t>(extent, 1, 1024);
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(product, 1024));
    }
  return 256;
}

std::optional<Cost> costOf(const ptx::RewrittenKernel &kernel, Kind kind, std::uint32_t arch,
                           const Assembled &assembled) {
  auto user = assembled.entries.find(kernel.layout.name);
  if (user == assembled.entries.end())
    return std::nullopt;
  std::uint32_t threads = threadsOf(*kernel.function);
  auto fit = [&](const EntryUsage &usage) {
    return blocksPerSm(arch, threads, usage.registers, usage.sharedBytes);
  };
  Cost cost;
  cost.userRegisters = user->second.registers;
  cost.userBlocks = cost.blocks = fit(user->second);
  bool found = false;
  for (bool resume : {false, true}) {
    auto entry = assembled.entries.find(bundle::entryName(kernel.layout.name, kind, resume));
    if (entry == assembled.entries.end())
      continue;
    cost.registers = std::max(cost.registers, entry->second.registers);
    cost.spills = std::max(cost.spills, entry->second.spillBytes);
    cost.blocks = found ? std::min(cost.blocks, fit(entry->second)) : fit(entry->second);
    found = true;
  }
  return found ? std::optional(cost) : std::nullopt;
}

void writeVariant(llvm::json::OStream &json, const Job &job, const ptx::RewrittenKernel &kernel,
                  const ptx::Variant &variant) {
  const Verdict &verdict = variant.verdict;
  json.object([&] {
    json.attribute("kind", llvm::StringRef(name(verdict.kind)));
    json.attribute("status", llvm::StringRef(name(verdict.status)));
    json.attribute("reason", verdict.reason);
    json.attribute("message", llvm::json::fixUTF8(verdict.message));
    json.attribute("line", verdict.line);
    json.attributeObject("arch", [&] {
      for (const auto &[arch, assembled] : job.assembled)
        if (auto cost = costOf(kernel, verdict.kind, arch, assembled))
          json.attributeObject("sm_" + std::to_string(arch), [&] {
            json.attribute("registers_user", cost->userRegisters);
            json.attribute("registers", cost->registers);
            json.attribute("spills", cost->spills);
            json.attribute("blocks_per_sm_user", cost->userBlocks);
            json.attribute("blocks_per_sm", cost->blocks);
          });
    });
  });
}

std::string verdictLine(const Job &job, const ptx::RewrittenKernel &kernel,
                        const ptx::Variant &variant) {
  const Verdict &verdict = variant.verdict;
  std::string line = fmt::format("    {:<11}{}", name(verdict.kind), name(verdict.status));
  if (verdict.status != Status::Emitted)
    return line + fmt::format(" {}, line {}: {}\n", verdict.reason, verdict.line, verdict.message);
  for (const auto &[arch, assembled] : job.assembled)
    if (auto cost = costOf(kernel, verdict.kind, arch, assembled))
      line += fmt::format("  sm_{}: registers {} -> {}, spills {}, blocks per SM {} -> {}", arch,
                          cost->userRegisters, cost->registers, cost->spills, cost->userBlocks,
                          cost->blocks);
  return line + "\n";
}

/// What the kernel's blocks wait for, where they do: " (waits: lower-blocks, assumed)".
std::string waitsText(const bundle::Kernel &kernel) {
  if (kernel.waits == bundle::Waits::None)
    return {};
  std::string text = fmt::format(" (waits: {}", name(kernel.waits));
  if (kernel.gridRank == 1)
    text += ", in grids of one dimension";
  else if (kernel.gridRank == 2)
    text += ", in grids of two dimensions";
  return text + (kernel.waitsAreAssumed ? ", assumed)" : ")");
}

} // namespace

std::string jsonReport(const std::vector<std::unique_ptr<Job>> &jobs) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, 2);
  json.object([&] {
    json.attribute("schema", 1);
    json.attributeArray("files", [&] {
      for (const auto &job : jobs)
        json.object([&] {
          json.attribute("file", llvm::json::fixUTF8(job->input));
          json.attributeArray("kernels", [&] {
            for (const ptx::RewrittenKernel &kernel : job->kernels) {
              if (!kernel.selected)
                continue;
              json.object([&] {
                json.attribute("name", kernel.layout.name);
                json.attribute("bitwise_stable", kernel.layout.bitwiseStable);
                json.attribute("waits", llvm::StringRef(name(kernel.layout.waits)));
                json.attribute("waits_assumed", kernel.layout.waitsAreAssumed);
                json.attribute("grid_rank", kernel.layout.gridRank);
                json.attributeArray("kinds", [&] {
                  for (const ptx::Variant &variant : kernel.variants)
                    writeVariant(json, *job, kernel, variant);
                });
              });
            }
          });
        });
    });
  });
  stream << '\n';
  return text;
}

std::string textReport(const std::vector<std::unique_ptr<Job>> &jobs) {
  std::string text;
  std::map<std::string, unsigned> counts;
  for (const auto &job : jobs) {
    text += job->input + "\n";
    for (const ptx::RewrittenKernel &kernel : job->kernels) {
      if (!kernel.selected)
        continue;
      text += fmt::format("  {}{}{}\n", kernel.layout.name,
                          kernel.layout.bitwiseStable ? "" : " (result depends on order)",
                          waitsText(kernel.layout));
      for (const ptx::Variant &variant : kernel.variants) {
        text += verdictLine(*job, kernel, variant);
        const Verdict &verdict = variant.verdict;
        ++counts[fmt::format("{} {}{}{}", name(verdict.kind), name(verdict.status),
                             verdict.reason.empty() ? "" : " ", verdict.reason)];
      }
    }
  }
  for (const auto &[what, count] : counts)
    text += fmt::format("{:6} {}\n", count, what);
  return text;
}

} // namespace tally::ptxopt
