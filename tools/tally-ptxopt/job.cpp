#include "job.h"

#include "cache.h"
#include "files.h"

#include "tally/bundle/bundle_writer.h"
#include "tally/ptx/syntax/parser.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <optional>

namespace tally::ptxopt {
namespace {

/// `file:line:col: error: sentence`, the line and a caret.
std::string render(const std::string &input, const std::string &source,
                   const ptx::Diagnostic &diagnostic) {
  llvm::SourceMgr manager;
  std::string name = input == "-" ? "<stdin>" : input;
  unsigned id =
      manager.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(source, name), llvm::SMLoc());
  const char *start = manager.getMemoryBuffer(id)->getBufferStart();
  std::size_t offset = std::min(diagnostic.offset, source.size());
  std::size_t end = std::min(offset + diagnostic.length, source.size());
  auto at = [&](std::size_t position) { return llvm::SMLoc::getFromPointer(start + position); };
  llvm::SmallVector<llvm::SMRange, 1> ranges;
  if (end > offset)
    ranges.push_back({at(offset), at(end)});
  std::string text;
  llvm::raw_string_ostream stream(text);
  manager.PrintMessage(stream, at(offset), llvm::SourceMgr::DK_Error, diagnostic.message, ranges,
                       {}, /*ShowColors=*/false);
  return text;
}

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

/// One job for one architecture. Only reads the job.
class Assembly {
public:
  Assembly(const Assembler &assembler, Job &job, std::uint32_t arch)
      : job(job), arch(arch), assembler(assembler), name("sm_" + std::to_string(arch)) {
    std::string_view target = job.module.target();
    // Code for sm_90a runs on nothing else, and must be assembled as such.
    if (arch == job.module.targetArch() && !target.empty() && target.back() >= 'a')
      name = target;
    for (const ptx::Item &item : job.module.items())
      debug |=
          item.kind == ptx::ItemKind::Target && item.text.find("debug") != std::string_view::npos;
  }

  void run() {
    std::vector<Unit> units = emittedUnits(job);
    auto whole = assemble(textOf(units));
    if (whole) {
      result = std::move(*whole);
      return;
    }
    auto alone = assemble(std::string(job.module.source()));
    if (!alone)
      error = Error{job.input + ": ptxas for " + name + ": " + alone.error().message +
                    " (--no-assemble leaves it as PTX)"};
    else
      bisect(units, whole.error().message);
  }

  Job &job;
  std::uint32_t arch;
  std::optional<Assembled> result;
  std::optional<Error> error;                         ///< the module itself
  std::vector<std::pair<Unit, std::string>> failures; ///< variants that ptxas rejects, and why

private:
  std::string textOf(const std::vector<Unit> &units) const {
    std::vector<const ptx::Variant *> variants;
    for (const Unit &unit : units)
      variants.push_back(unit.variant);
    return ptx::textWith(job.module, variants);
  }

  Result<Assembled> assemble(std::string text) const {
    return assembler.assemble({std::move(text), name, debug});
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
      if (auto part = assemble(textOf(half)); !part)
        bisect(half, part.error().message);
  }

  const Assembler &assembler;
  std::string name;
  bool debug = false;
};

std::vector<std::uint32_t> architecturesOf(const Options &options, const Job &job) {
  if (!options.architectures.empty())
    return options.architectures;
  return {std::max<std::uint32_t>(90, job.module.targetArch())};
}

/// Assembles `assemblies` at once; variants that fail are marked. Returns whether any did.
Result<bool> runAll(std::vector<std::unique_ptr<Assembly>> &assemblies) {
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency());
  for (auto &assembly : assemblies)
    pool.async([each = assembly.get()] { each->run(); });
  pool.wait();
  bool anyFailed = false;
  for (auto &assembly : assemblies) {
    if (assembly->error)
      return *assembly->error;
    for (auto &[unit, message] : assembly->failures) {
      anyFailed = true;
      unit.variant->verdict = {unit.variant->verdict.kind, Status::Failed, "ptxas", message,
                               assembly->job.module.lineOf(unit.kernel->function->name)};
      unit.variant->entries.clear();
      unit.variant->clones.clear();
    }
    if (assembly->result)
      assembly->job.assembled[assembly->arch] = std::move(*assembly->result);
  }
  return anyFailed;
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

Result<std::unique_ptr<Job>> startJob(const Options &options, const std::string &input) {
  auto text = readInput(input);
  if (!text)
    return text.error();
  auto parsed = ptx::parse(*text);
  if (auto *diagnostic = std::get_if<ptx::Diagnostic>(&parsed))
    return Error{render(input, *text, *diagnostic)};
  auto job = std::make_unique<Job>(input, std::move(std::get<ptx::Module>(parsed)));
  auto output = outputPath(options, input);
  if (!output)
    return output.error();
  job->output = *output;
  if (!options.describes())
    job->kernels =
        ptx::rewrite(job->module, {options.kinds, options.selects, options.assumesInOrder});
  return job;
}

Result<void> checkOutputs(const std::vector<std::unique_ptr<Job>> &jobs) {
  std::map<std::string, const Job *> byOutput;
  for (const auto &job : jobs)
    if (auto [place, isNew] = byOutput.emplace(job->output, job.get());
        !isNew && job->output != "-")
      return Error{place->second->input + " and " + job->input + " would both be written to " +
                   job->output};
  return {};
}

Result<void> assembleJobs(const Options &options, std::vector<std::unique_ptr<Job>> &jobs) {
  std::vector<Job *> pending;
  std::size_t runs = 0;
  for (auto &job : jobs) {
    pending.push_back(job.get());
    runs += architecturesOf(options, *job).size();
  }
  // One run of ptxas has threads of its own where there are fewer runs than cores.
  unsigned cores = llvm::hardware_concurrency().compute_thread_count();
  auto threads = static_cast<unsigned>(cores / std::clamp<std::size_t>(runs, 1, cores));
  auto cache = openCache(options);
  Assembler assembler(options.ptxas, cache, threads);
  // A variant that one architecture rejects is taken out for all, so those are assembled again.
  while (!pending.empty()) {
    std::vector<std::unique_ptr<Assembly>> assemblies;
    for (Job *job : pending) {
      job->assembled.clear();
      for (std::uint32_t arch : architecturesOf(options, *job)) {
        if (arch < job->module.targetArch())
          return Error{job->input + ": its target " + std::string(job->module.target()) +
                       " is above the architecture sm_" + std::to_string(arch)};
        assemblies.push_back(std::make_unique<Assembly>(assembler, *job, arch));
      }
    }
    auto failed = runAll(assemblies);
    if (!failed)
      return failed.error();
    pending.clear();
    for (auto &assembly : assemblies)
      if (!assembly->failures.empty() && (pending.empty() || pending.back() != &assembly->job))
        pending.push_back(&assembly->job);
  }
  if (cache)
    cache->prune();
  return {};
}

namespace {

/// What is said of the kernels selected, each under its name.
std::string description(const Options &options, const Job &job) {
  ptx::ModuleFacts facts(job.module);
  std::string text;
  for (const ptx::Item &item : job.module.items()) {
    const ptx::Function *function = item.function.get();
    if (!function || !function->isEntry || !function->hasBody ||
        (options.selects && !options.selects(function->name)))
      continue;
    if (!options.printAnalysis) {
      text += ptx::cfgAsDot(*function);
      continue;
    }
    text += std::string(options.printAnalysis->name) + " of " + std::string(function->name) + '\n';
    text += options.printAnalysis->print(facts, *function) + '\n';
  }
  return text;
}

} // namespace

Result<void> writeJob(const Options &options, const Job &job) {
  if (options.describes())
    return writeOutput(job.output, description(options, job));
  if (options.emit == Emit::Ptx)
    return writeOutput(job.output, [&](const std::function<void(std::string_view)> &sink) {
      ptx::writeWithVariants(job.module, job.kernels, sink);
    });
  std::string text = ptx::textWithVariants(job.module, job.kernels);
  bundle::Bundle bundle;
  bundle.moduleHash = bundle::hashOf(job.module.source());
  for (const ptx::RewrittenKernel &kernel : job.kernels)
    bundle.kernels.push_back(ptx::describe(kernel));
  bundle.images.push_back({bundle::ImageFormat::Ptx, job.module.targetArch(), std::move(text)});
  for (const auto &[arch, assembled] : job.assembled)
    bundle.images.push_back({bundle::ImageFormat::Cubin, arch, assembled.cubin});
  return writeOutput(job.output, bundle::write(bundle));
}

} // namespace tally::ptxopt
