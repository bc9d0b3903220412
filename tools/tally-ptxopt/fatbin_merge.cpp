#include "fatbin_merge.h"

#include "combine.h"
#include "machine_code.h"

#include "tally/bundle/elf.h"
#include "tally/bundle/fatbin_writer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tally::ptxopt {
namespace {

using bundle::FatbinEntry;
using bundle::FatbinKind;

constexpr std::uint64_t archFlags = bundle::fatbinArchSpecific | bundle::fatbinFamily;

void keep(EntryPlan &plan, Kept why, std::string message = {}) {
  plan.job = nullptr;
  plan.arch.reset();
  plan.kept = why;
  plan.message = std::move(message);
}

std::string suffixOf(const FatbinEntry &entry) {
  return entry.archName().substr(std::to_string(entry.arch).size());
}

class Planner {
public:
  Planner(const Options &options, FatbinPlan &plan, std::vector<std::unique_ptr<Job>> &jobs)
      : options(options), plan(plan), jobs(jobs) {}

  Result<void> run() {
    for (const FatbinEntry &entry : plan.container.entries)
      plan.entries.push_back({entry, nullptr, std::nullopt, Kept::Unknown, {}});
    for (EntryPlan &entry : plan.entries)
      if (entry.entry.kind == FatbinKind::Ptx)
        if (auto done = planPtx(entry); !done)
          return done;
    makeSiblings(plan.jobs);
    for (EntryPlan &entry : plan.entries)
      if (entry.entry.kind == FatbinKind::Elf) {
        if (auto done = planMachineCode(entry); !done)
          return done;
      } else if (entry.entry.kind == FatbinKind::Nvvm) {
        keep(entry, Kept::Scrambled);
      }
    for (std::uint32_t arch : options.architectures)
      planAddition(arch);
    return {};
  }

private:
  Result<void> planPtx(EntryPlan &plan) {
    if (plan.entry.flags & bundle::fatbinScrambled) {
      keep(plan, Kept::Scrambled);
      return {};
    }
    auto text = bundle::decompress(plan.entry);
    if (!text)
      return Error{this->plan.name + ": " + text.error().message};
    std::string part = "compute_" + plan.entry.archName();
    auto job = makeJob(options, this->plan.name + ": " + part, *text);
    if (!job) {
      // The compiler wrote the PTX, not the user: the program is built without variants, and the
      // user is told.
      keep(plan, Kept::Rejected, job.error().message);
      return {};
    }
    plan.job = job->get();
    plan.job->part = std::move(part);
    plan.job->keepsMachineCode = true;
    this->plan.jobs.push_back(plan.job);
    jobs.push_back(std::move(*job));
    return {};
  }

  /// Returns the PTX entry of a virtual architecture; null if there is none, or more than one.
  const EntryPlan *ptxFor(std::uint32_t arch, std::uint64_t flags) const {
    const EntryPlan *found = nullptr;
    for (const EntryPlan &each : plan.entries)
      if (each.entry.kind == FatbinKind::Ptx && each.entry.arch == arch &&
          (each.entry.flags & archFlags) == (flags & archFlags)) {
        if (found)
          return nullptr;
        found = &each;
      }
    return found;
  }

  Result<void> planMachineCode(EntryPlan &plan) {
    auto cubin = bundle::decompress(plan.entry);
    if (!cubin)
      return Error{this->plan.name + ": " + cubin.error().message};
    auto code = readMachineCode(*cubin);
    if (!code)
      return Error{fmt::format("{}: machine code for sm_{} (the fatbin's entry at byte {}): {}",
                               this->plan.name, plan.entry.archName(), plan.entry.offset,
                               code.error().message)};
    if (!code->hasCode) {
      keep(plan, Kept::NoKernels);
      return {};
    }
    const EntryPlan *ptx = ptxFor(code->virtualArch, plan.entry.flags);
    if (!ptx) {
      keep(plan, Kept::NoMatchingPtx,
           fmt::format("compute_{}{}", code->virtualArch, suffixOf(plan.entry)));
      return {};
    }
    if (!ptx->job) {
      keep(plan, ptx->kept, ptx->message);
      return {};
    }
    if (!options.assemble) {
      keep(plan, Kept::NotAssembled);
      return {};
    }
    plan.job = ptx->job;
    plan.arch = Architecture{plan.entry.arch, suffixOf(plan.entry)};
    if (!plan.job->hasVariants())
      return {};
    // nvcc's options for ptxas stand with the PTX; clang leaves them out there, but ptxas notes
    // them in the machine code.
    std::vector<std::string> arguments = assemblerOptions(ptx->entry.options);
    if (arguments.empty() && code->options)
      arguments = *code->options;
    plan.job->usersRegisters[*plan.arch] = std::move(code->registers);
    addTarget(*plan.job, {*plan.arch, std::move(arguments)});
    return {};
  }

  static void addTarget(Job &job, AssemblyTarget target) {
    target.options.push_back("-m64");
    for (const AssemblyTarget &known : job.targets)
      if (known.arch == target.arch)
        return;
    job.targets.push_back(std::move(target));
  }

  /// Plans machine code for sm_`arch`, for which the driver would now compile the PTX or take the
  /// code of an older GPU of the family. The new code comes from the PTX of that older code.
  void planAddition(std::uint32_t arch) {
    if (!options.assemble)
      return;
    const EntryPlan *code = nullptr, *ptx = nullptr;
    for (const EntryPlan &each : plan.entries) {
      if (each.entry.arch > arch || each.entry.flags & archFlags)
        continue;
      bool sameFamily = each.entry.arch / 10 == arch / 10;
      const EntryPlan *&best = each.entry.kind == FatbinKind::Elf ? code : ptx;
      if (each.entry.kind == FatbinKind::Elf ? sameFamily : each.entry.kind == FatbinKind::Ptx)
        if (!best || best->entry.arch < each.entry.arch)
          best = &each;
    }
    if (code && code->entry.arch == arch)
      return;
    Job *job = code ? code->job : ptx ? ptx->job : nullptr;
    if (!job || !job->hasVariants())
      return;
    for (const EntryPlan &each : plan.entries)
      if (each.entry.kind == FatbinKind::Ptx && each.job == job)
        plan.added.push_back({{arch, ""}, assemblerOptions(each.entry.options)});
    plan.addedFrom.push_back(job);
    addTarget(*job, plan.added.back());
  }

  const Options &options;
  FatbinPlan &plan;
  std::vector<std::unique_ptr<Job>> &jobs;
};

/// Returns the section that an entry's header repeats for machine code for sm_100 and above.
std::string_view compatibilityOf(std::string_view cubin) {
  auto section = bundle::findSection(cubin, ".nv.compat");
  return section && *section ? **section : std::string_view();
}

/// Returns the compression of machine code with variants where the compiler did not compress the
/// user's code: the compression of its PTX. By default nvcc compresses PTX alone, but variants make
/// the code several times as long and repeat it. A driver that reads the compressed PTX also reads
/// such code.
bundle::Compression compressionFor(const FatbinPlan &plan, const Job *job) {
  for (const EntryPlan &each : plan.entries)
    if (each.entry.kind == FatbinKind::Ptx && each.job == job)
      return each.entry.compression();
  return bundle::Compression::None;
}

/// Adds an entry of machine code for an architecture that had none.
Result<void> addMachineCode(bundle::FatbinWriter &writer, const Job &job, const Architecture &arch,
                            bundle::Compression compression) {
  auto assembled = job.assembled.find(arch);
  if (assembled == job.assembled.end())
    return {};
  const std::string &cubin = assembled->second.cubin;
  bundle::NewFatbinEntry entry;
  entry.kind = FatbinKind::Elf;
  entry.major = 1;
  entry.minor = static_cast<unsigned char>(cubin[8]); // the ELF file's ABI version
  entry.arch = arch.number;
  if (arch.number >= 100) {
    entry.flags |= bundle::fatbinCompatibility;
    entry.options = compatibilityOf(cubin);
  }
  entry.compression = compression;
  entry.payload = cubin;
  return writer.add(entry);
}

} // namespace

std::string_view codeOf(Kept kept) {
  constexpr std::string_view codes[] = {"no-kernels", "no-matching-ptx", "not-assembled",
                                        "rejected",   "scrambled",       "unknown-kind"};
  return codes[static_cast<std::size_t>(kept)];
}

Result<FatbinPlan> planFatbin(const Options &options, const std::string &name,
                              bundle::FatbinContainer container,
                              std::vector<std::unique_ptr<Job>> &jobs) {
  FatbinPlan plan;
  plan.name = name;
  plan.container = std::move(container);
  if (auto done = Planner(options, plan, jobs).run(); !done)
    return done.error();
  return plan;
}

Result<MergedFatbin> mergeFatbin(const FatbinPlan &plan) {
  MergedFatbin merged;
  bundle::FatbinWriter writer;
  for (const EntryPlan &each : plan.entries) {
    Result<void> done;
    if (!each.job || !each.job->hasVariants()) {
      writer.keep(each.entry);
    } else if (each.entry.kind == FatbinKind::Ptx) {
      done = writer.replace(each.entry, ptx::textWithVariants(each.job->module, each.job->kernels));
      merged.changed = true;
    } else if (auto code = each.job->assembled.find(*each.arch);
               code != each.job->assembled.end()) {
      const std::string &cubin = code->second.cubin;
      auto compression = each.entry.compression();
      if (compression == bundle::Compression::None)
        compression = compressionFor(plan, each.job);
      bool renewed = each.entry.flags & bundle::fatbinCompatibility;
      done = writer.replace(each.entry, cubin,
                            renewed ? compatibilityOf(cubin) : each.entry.options, compression);
    } else {
      writer.keep(each.entry);
    }
    if (!done)
      return Error{plan.name + ": " + done.error().message};
  }
  for (std::size_t i = 0; i < plan.added.size(); ++i)
    if (auto done = addMachineCode(writer, *plan.addedFrom[i], plan.added[i].arch,
                                   compressionFor(plan, plan.addedFrom[i]));
        !done)
      return Error{plan.name + ": " + done.error().message};
  merged.container = writer.container();
  merged.kernels = combinedKernels({plan.jobs.begin(), plan.jobs.end()});
  return merged;
}

std::vector<std::string> remarksOn(const FatbinPlan &plan) {
  std::vector<std::string> remarks;
  for (const EntryPlan &each : plan.entries) {
    std::string what = fmt::format(
        "{}: {} for {}{}", plan.name, each.entry.kind == FatbinKind::Ptx ? "PTX" : "code",
        each.entry.kind == FatbinKind::Ptx ? "compute_" : "sm_", each.entry.archName());
    if (each.job && each.arch)
      if (auto why = each.job->rejected.find(*each.arch); why != each.job->rejected.end())
        remarks.push_back(
            fmt::format("{} is kept without variants (rejected): ptxas: {}", what, why->second));
    if (each.job || each.kept == Kept::NoKernels)
      continue;
    std::string why(codeOf(each.kept));
    if (each.kept == Kept::NoMatchingPtx)
      why += fmt::format("; it was made from {}, whose PTX is not in the file", each.message);
    else if (!each.message.empty() && each.entry.kind == FatbinKind::Ptx)
      why += "):\n" + each.message;
    remarks.push_back(fmt::format("{} is kept without variants ({}{}", what, why,
                                  why.ends_with("\n") ? "" : ")"));
  }
  return remarks;
}

} // namespace tally::ptxopt
