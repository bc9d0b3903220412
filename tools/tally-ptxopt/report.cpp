#include "report.h"

#include "occupancy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tally::ptxopt {
namespace {

/// Resources of one entry on one architecture.
struct EntryCost {
  std::uint32_t registers = 0, spills = 0, shared = 0;
  std::uint32_t blocks = 0; ///< per SM; dynamic shared memory counts as 0
};

/// Resources of the user's kernel and of one variant.
struct Cost {
  std::uint32_t threads = 0; ///< threads of a block, for the blocks per SM
  EntryCost user, worst;     ///< worst: the worst value of each field over the variant's entries
  std::vector<std::pair<std::string, EntryCost>> entries; ///< entries of the variant, by name
};

std::optional<Cost> costOf(const ptx::RewrittenKernel &kernel, Kind kind, std::uint32_t arch,
                           const Assembled &assembled) {
  auto user = assembled.entries.find(kernel.layout.name);
  if (user == assembled.entries.end())
    return std::nullopt;
  Cost cost;
  cost.threads = threadsOf(*kernel.function);
  auto of = [&](const EntryUsage &usage) {
    return EntryCost{usage.registers, usage.spillBytes, usage.sharedBytes,
                     blocksPerSm(arch, cost.threads, usage.registers, usage.sharedBytes)};
  };
  cost.user = of(user->second);
  for (bool resume : {false, true}) {
    std::string name = bundle::entryName(kernel.layout.name, kind, resume);
    auto entry = assembled.entries.find(name);
    if (entry == assembled.entries.end())
      continue;
    EntryCost each = of(entry->second);
    if (cost.entries.empty())
      cost.worst = each;
    cost.worst = {
        std::max(cost.worst.registers, each.registers), std::max(cost.worst.spills, each.spills),
        std::max(cost.worst.shared, each.shared), std::min(cost.worst.blocks, each.blocks)};
    cost.entries.emplace_back(std::move(name), each);
  }
  return cost.entries.empty() ? std::nullopt : std::optional(std::move(cost));
}

void writeCost(llvm::json::OStream &json, const Cost &cost) {
  auto write = [&](const EntryCost &each) {
    json.attribute("registers", each.registers);
    json.attribute("spills", each.spills);
    json.attribute("shared", each.shared);
    json.attribute("blocks_per_sm", each.blocks);
  };
  json.attribute("threads", cost.threads);
  json.attributeObject("user", [&] { write(cost.user); });
  json.attributeObject("variant", [&] { write(cost.worst); });
  json.attributeObject("entries", [&] {
    for (const auto &[name, each] : cost.entries)
      json.attributeObject(name, [&, &entry = each] { write(entry); });
  });
}

bool savesBlocks(const Verdict &verdict) {
  return verdict.kind == Kind::Checkpoint && verdict.status == Status::Emitted;
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
    if (savesBlocks(verdict))
      json.attributeObject("saved", [&] {
        json.attribute("bytes_per_thread", verdict.recordBytes);
        json.attribute("static_shared", verdict.savedSharedBytes);
      });
    json.attributeObject("arch", [&] {
      for (const auto &[arch, assembled] : job.assembled)
        if (auto cost = costOf(kernel, verdict.kind, arch.number, assembled))
          json.attributeObject(arch.name(), [&] { writeCost(json, *cost); });
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
    if (auto cost = costOf(kernel, verdict.kind, arch.number, assembled))
      line +=
          fmt::format("  {}: registers {} -> {}, spills {} -> {}, blocks per SM {} -> {}",
                      arch.name(), cost->user.registers, cost->worst.registers, cost->user.spills,
                      cost->worst.spills, cost->user.blocks, cost->worst.blocks);
  if (savesBlocks(verdict))
    line += fmt::format("  saves {} bytes a thread, {} of static shared memory a block",
                        verdict.recordBytes, verdict.savedSharedBytes);
  return line + "\n";
}

/// Returns the class of waits of the kernel's blocks, if they wait: " (waits: lower-blocks,
/// assumed)".
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
  if (llvm::any_of(jobs, [](const auto &job) { return !job->assembled.empty(); }))
    text += "Blocks per SM are those of the kernel's own block size where it declares one, else of "
            "256 threads,\nwithout dynamic shared memory.\n";
  for (const auto &[what, count] : counts)
    text += fmt::format("{:6} {}\n", count, what);
  return text;
}

} // namespace tally::ptxopt
