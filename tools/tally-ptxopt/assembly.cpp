#include "assembly.h"

#include "cache.h"
#include "choose.h"
#include "progress.h"

#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tally::ptxopt {

Result<std::vector<AssemblyTarget>> targetsOf(const Options &options, const Job &job) {
  std::vector<std::uint32_t> numbers = options.architectures;
  std::uint32_t own = job.module.targetArch();
  if (numbers.empty())
    numbers = {std::max<std::uint32_t>(90, own)};
  std::string_view name = job.module.target();
  // Code for sm_90a runs on nothing else, and must be assembled for sm_90a.
  std::string suffix(name.substr(name.find_last_not_of("af") + 1));
  std::vector<std::string> arguments;
  for (const ptx::Item &item : job.module.items())
    if (item.kind == ptx::ItemKind::Target && item.text.find("debug") != std::string_view::npos)
      arguments = {"-g"};
  std::vector<AssemblyTarget> targets;
  for (std::uint32_t number : numbers) {
    if (number < own)
      return Error{job.input + ": its target " + std::string(name) +
                   " is above the architecture sm_" + std::to_string(number)};
    targets.push_back({{number, number == own ? suffix : ""}, arguments});
  }
  return targets;
}

namespace {

/// One emitted variant.
struct Unit {
  ptx::RewrittenKernel *kernel;
  ptx::Variant *variant;
};

std::vector<Unit> emittedUnits(Job &job) {
  std::vector<Unit> units;
  for (ptx::RewrittenKernel &kernel : job.kernels)
    for (ptx::Variant &variant : kernel.variants)
      if (variant.verdict.status == Status::Emitted)
        units.push_back({&kernel, &variant});
  return units;
}

/// One job for one target.
class Assembly {
public:
  Assembly(const Assembler &assembler, Job &job, const AssemblyTarget &target, bool chooses)
      : job(job), arch(target.arch), assembler(assembler, target), chooses(chooses) {}

  /// Changes the job only if this assembly chooses codings.
  void run() {
    std::vector<Uncapped> capped = chooses ? capAhead(job, arch) : std::vector<Uncapped>();
    auto whole = assembleUnits(emittedUnits(job));
    if (whole && chooses && chooseCodings(assembler, job, *whole, std::move(capped)))
      whole = assembleUnits(emittedUnits(job));
    if (whole) {
      result = std::move(*whole);
      return;
    }
    auto alone = assembler.assemble(std::string(job.module.source()));
    if (!alone)
      rejection = alone.error().message;
    else
      bisect(emittedUnits(job), whole.error().message);
  }

  Job &job;
  Architecture arch;
  std::optional<Assembled> result;
  std::optional<std::string> rejection; ///< ptxas's message if it rejects the module itself
  std::vector<std::pair<Unit, std::string>> failures; ///< rejected variants, ptxas's messages

private:
  Result<Assembled> assembleUnits(const std::vector<Unit> &units) const {
    std::vector<const ptx::Variant *> variants;
    for (const Unit &unit : units)
      variants.push_back(unit.variant);
    return assembler.assemble(ptx::textWith(job.module, variants));
  }

  /// ptxas rejects `units` together with `message`: finds the units that it rejects.
  void bisect(const std::vector<Unit> &units, const std::string &message) {
    if (units.size() == 1) {
      failures.emplace_back(units.front(), message);
      return;
    }
    auto middle = units.begin() + static_cast<std::ptrdiff_t>(units.size() / 2);
    for (const std::vector<Unit> &half :
         {std::vector<Unit>(units.begin(), middle), std::vector<Unit>(middle, units.end())})
      if (auto part = assembleUnits(half); !part)
        bisect(half, part.error().message);
  }

  ModuleAssembler assembler;
  bool chooses;
};

void markFailed(ptx::RewrittenKernel &kernel, ptx::Variant &variant, const std::string &message,
                const Job &job) {
  variant.verdict = {variant.verdict.kind, Status::Failed, "ptxas", message,
                     job.module.lineOf(kernel.function->name)};
  variant.entries.clear();
  variant.clones.clear();
}

/// Marks a variant that failed in one entry of a fatbin as failed in another entry too.
void markFailedIn(Job &sibling, const Unit &unit, const std::string &message) {
  for (ptx::RewrittenKernel &kernel : sibling.kernels)
    if (kernel.layout.name == unit.kernel->layout.name)
      for (ptx::Variant &variant : kernel.variants)
        if (variant.verdict.kind == unit.variant->verdict.kind)
          markFailed(kernel, variant, message, sibling);
}

/// Runs `assemblies` concurrently and marks variants that fail. Returns the jobs of these variants.
Result<std::set<Job *>> runAll(std::vector<std::unique_ptr<Assembly>> &assemblies) {
  std::size_t kernels = 0;
  for (auto &assembly : assemblies)
    kernels += assembly->job.kernels.size();
  {
    Progress progress(kernels);
    llvm::DefaultThreadPool pool(llvm::hardware_concurrency());
    for (auto &assembly : assemblies)
      pool.async([&progress, each = assembly.get()] {
        each->run();
        progress.done(each->job.kernels.size());
      });
    pool.wait();
  }
  std::set<Job *> failed;
  for (auto &assembly : assemblies) {
    Job &job = assembly->job;
    if (assembly->rejection) {
      if (!job.keepsMachineCode)
        return Error{job.input + ": ptxas for " + assembly->arch.name() + ": " +
                     *assembly->rejection + " (--no-assemble leaves it as PTX)"};
      job.rejected[assembly->arch] = *assembly->rejection;
    }
    for (auto &[unit, message] : assembly->failures) {
      failed.insert(&job);
      markFailed(*unit.kernel, *unit.variant, message, job);
      for (Job *sibling : job.siblings) {
        markFailedIn(*sibling, unit, message);
        failed.insert(sibling);
      }
    }
    if (assembly->result)
      job.assembled[assembly->arch] = std::move(*assembly->result);
  }
  return failed;
}

/// Null without a cache directory or if it cannot be opened; each run then assembles anew.
std::shared_ptr<AssemblyCache> openCache(const Options &options) {
  if (options.cacheDirectory.empty())
    return nullptr;
  auto cache = AssemblyCache::open(options.cacheDirectory, options.cacheBytes);
  if (cache)
    return *cache;
  llvm::errs() << "tally-ptxopt: warning: no cache: " << cache.error().message << '\n';
  return nullptr;
}

} // namespace

Result<void> assembleJobs(const Options &options, std::vector<std::unique_ptr<Job>> &jobs) {
  std::vector<Job *> pending;
  std::size_t runs = 0;
  for (auto &job : jobs)
    if (!job->targets.empty()) {
      pending.push_back(job.get());
      runs += job->targets.size();
    }
  // With fewer runs than cores, one run of ptxas gets several threads.
  unsigned cores = llvm::hardware_concurrency().compute_thread_count();
  auto threads = static_cast<unsigned>(cores / std::clamp<std::size_t>(runs, 1, cores));
  auto cache = openCache(options);
  Assembler assembler(options.ptxas, cache, threads);

  // First each job's first target, which chooses codings, then the other targets. A variant that
  // any target rejects is taken out for all targets, so its jobs are assembled again.
  while (!pending.empty()) {
    std::vector<std::unique_ptr<Assembly>> first, others;
    for (Job *job : pending)
      job->assembled.clear();
    for (Job *job : pending)
      first.push_back(std::make_unique<Assembly>(assembler, *job, job->targets.front(),
                                                 options.choosesCodings()));
    auto failed = runAll(first);
    if (!failed)
      return failed.error();
    for (Job *job : pending)
      if (!failed->contains(job))
        for (const AssemblyTarget &target : job->targets)
          if (!job->assembled.contains(target.arch) && !job->rejected.contains(target.arch))
            others.push_back(std::make_unique<Assembly>(assembler, *job, target, false));
    auto failedLater = runAll(others);
    if (!failedLater)
      return failedLater.error();
    failed->insert(failedLater->begin(), failedLater->end());
    pending.clear();
    for (auto &job : jobs)
      if (failed->contains(job.get()) && !job->targets.empty())
        pending.push_back(job.get());
  }
  if (cache)
    cache->prune();
  return {};
}

} // namespace tally::ptxopt
