#include "assembly.h"

#include "cache.h"
#include "choose.h"

#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tally::ptxopt {

ModuleAssembler::ModuleAssembler(const Assembler &assembler, const Job &job, std::uint32_t arch)
    : assembler(assembler), name("sm_" + std::to_string(arch)) {
  std::string_view target = job.module.target();
  // Code for sm_90a runs on nothing else, and must be assembled as such.
  if (arch == job.module.targetArch() && !target.empty() && target.back() >= 'a')
    name = target;
  for (const ptx::Item &item : job.module.items())
    debug |=
        item.kind == ptx::ItemKind::Target && item.text.find("debug") != std::string_view::npos;
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

/// One job for one architecture.
class Assembly {
public:
  Assembly(const Assembler &assembler, Job &job, std::uint32_t arch, bool chooses)
      : job(job), arch(arch), assembler(assembler, job, arch), chooses(chooses) {}

  /// Changes the job only where it chooses.
  void run() {
    auto whole = assembleUnits(emittedUnits(job));
    if (whole && chooses && chooseCodings(assembler, job, arch, *whole))
      whole = assembleUnits(emittedUnits(job));
    if (whole) {
      result = std::move(*whole);
      return;
    }
    auto alone = assembler.assemble(std::string(job.module.source()));
    if (!alone)
      error = Error{job.input + ": ptxas for " + assembler.architecture() + ": " +
                    alone.error().message + " (--no-assemble leaves it as PTX)"};
    else
      bisect(emittedUnits(job), whole.error().message);
  }

  Job &job;
  std::uint32_t arch;
  std::optional<Assembled> result;
  std::optional<Error> error;                         ///< the module itself
  std::vector<std::pair<Unit, std::string>> failures; ///< variants that ptxas rejects, and why

private:
  Result<Assembled> assembleUnits(const std::vector<Unit> &units) const {
    std::vector<const ptx::Variant *> variants;
    for (const Unit &unit : units)
      variants.push_back(unit.variant);
    return assembler.assemble(ptx::textWith(job.module, variants));
  }

  /// `units` together are rejected with `message`: finds which of them are.
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

std::vector<std::uint32_t> architecturesOf(const Options &options, const Job &job) {
  if (!options.architectures.empty())
    return options.architectures;
  return {std::max<std::uint32_t>(90, job.module.targetArch())};
}

/// Assembles `assemblies` at once; variants that fail are marked. Returns the jobs of those.
Result<std::set<Job *>> runAll(std::vector<std::unique_ptr<Assembly>> &assemblies) {
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency());
  for (auto &assembly : assemblies)
    pool.async([each = assembly.get()] { each->run(); });
  pool.wait();
  std::set<Job *> failed;
  for (auto &assembly : assemblies) {
    if (assembly->error)
      return *assembly->error;
    for (auto &[unit, message] : assembly->failures) {
      failed.insert(&assembly->job);
      unit.variant->verdict = {unit.variant->verdict.kind, Status::Failed, "ptxas", message,
                               assembly->job.module.lineOf(unit.kernel->function->name)};
      unit.variant->entries.clear();
      unit.variant->clones.clear();
    }
    if (assembly->result)
      assembly->job.assembled[assembly->arch] = std::move(*assembly->result);
  }
  return failed;
}

/// Null without a cache, or where none can be kept; then each run assembles anew.
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
  for (auto &job : jobs) {
    pending.push_back(job.get());
    for (std::uint32_t arch : architecturesOf(options, *job)) {
      ++runs;
      if (arch < job->module.targetArch())
        return Error{job->input + ": its target " + std::string(job->module.target()) +
                     " is above the architecture sm_" + std::to_string(arch)};
    }
  }
  // One run of ptxas has threads of its own where there are fewer runs than cores.
  unsigned cores = llvm::hardware_concurrency().compute_thread_count();
  auto threads = static_cast<unsigned>(cores / std::clamp<std::size_t>(runs, 1, cores));
  auto cache = openCache(options);
  Assembler assembler(options.ptxas, cache, threads);

  // The first architecture of each job, which chooses codings, and then the others. A variant that
  // one architecture rejects is taken out for all, so those are assembled again.
  while (!pending.empty()) {
    std::vector<std::unique_ptr<Assembly>> first, others;
    for (Job *job : pending)
      job->assembled.clear();
    for (Job *job : pending)
      first.push_back(std::make_unique<Assembly>(
          assembler, *job, architecturesOf(options, *job).front(), options.choosesCodings()));
    auto failed = runAll(first);
    if (!failed)
      return failed.error();
    for (Job *job : pending)
      if (!failed->contains(job))
        for (std::uint32_t arch : architecturesOf(options, *job))
          if (!job->assembled.contains(arch))
            others.push_back(std::make_unique<Assembly>(assembler, *job, arch, false));
    auto failedLater = runAll(others);
    if (!failedLater)
      return failedLater.error();
    failed->insert(failedLater->begin(), failedLater->end());
    std::erase_if(pending, [&](Job *job) { return !failed->contains(job); });
  }
  if (cache)
    cache->prune();
  return {};
}

} // namespace tally::ptxopt
