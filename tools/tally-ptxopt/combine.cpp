#include "combine.h"

#include <algorithm>
#include <map>
#include <string>

namespace tally::ptxopt {
namespace {

/// One kernel in one job.
struct Instance {
  Job *job;
  ptx::RewrittenKernel *kernel;
};

std::map<std::string, std::vector<Instance>> instancesOf(const std::vector<Job *> &jobs) {
  std::map<std::string, std::vector<Instance>> instances;
  for (Job *job : jobs)
    for (ptx::RewrittenKernel &kernel : job->kernels)
      instances[kernel.layout.name].push_back({job, &kernel});
  return instances;
}

/// Whether variants of the two kernels are launched alike. combine() merges the fields that are not
/// compared here.
bool launchedAlike(const bundle::Kernel &a, const bundle::Kernel &b) {
  auto same = [](const bundle::Parameter &x, const bundle::Parameter &y) {
    return x.offset == y.offset && x.size == y.size;
  };
  return a.parameterBytes == b.parameterBytes &&
         std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                    b.parameters.end(), same) &&
         a.guardTakesTickets() == b.guardTakesTickets() && a.usesClusters == b.usesClusters &&
         a.requiredCluster == b.requiredCluster;
}

ptx::Variant *variantOf(ptx::RewrittenKernel &kernel, Kind kind) {
  for (ptx::Variant &variant : kernel.variants)
    if (variant.verdict.kind == kind)
      return &variant;
  return nullptr;
}

/// Takes a kind out of all instances if one instance lacks it.
void equalize(const std::vector<Instance> &instances, Kind kind) {
  const ptx::Variant *missing = nullptr;
  const Job *where = nullptr;
  bool alike = true;
  for (const Instance &instance : instances) {
    const ptx::Variant *variant = variantOf(*instance.kernel, kind);
    if (!variant)
      return; // not asked for, or not selected: the same in all jobs
    if (variant->verdict.status != Status::Emitted && !missing) {
      missing = variant;
      where = instance.job;
    }
    alike &= launchedAlike(instances.front().kernel->layout, instance.kernel->layout);
  }
  if (!missing && alike)
    return;
  for (const Instance &instance : instances) {
    ptx::Variant &variant = *variantOf(*instance.kernel, kind);
    if (variant.verdict.status != Status::Emitted)
      continue;
    std::uint32_t line = instance.job->module.lineOf(instance.kernel->function->name);
    Verdict verdict{kind, Status::Refused, "differs-by-architecture",
                    "the kernel's variants would be launched differently on other architectures",
                    line};
    if (missing)
      verdict = {kind, missing->verdict.status, missing->verdict.reason,
                 missing->verdict.message + " (in " + where->input + ")", line};
    withdraw(variant, std::move(verdict));
  }
}

/// Merges `other` into `all`, so that `all` is true of both kernels.
void combine(bundle::Kernel &all, const bundle::Kernel &other) {
  all.staticSharedBytes = std::max(all.staticSharedBytes, other.staticSharedBytes);
  all.bitwiseStable &= other.bitwiseStable;
  all.waits = std::max(all.waits, other.waits);
  all.gridRank = std::min(all.gridRank, other.gridRank);
  all.waitsAreAssumed |= other.waitsAreAssumed;
  all.readsSharedSize |= other.readsSharedSize;
  all.changesVariables |= other.changesVariables;
  // A worker for each block is right for any kernel; other launches are cheaper.
  all.spending = std::max(all.spending, other.spending);
}

} // namespace

void withdraw(ptx::Variant &variant, Verdict verdict) {
  variant.verdict = std::move(verdict);
  variant.entries.clear();
  variant.clones.clear();
  variant.alternatives.clear();
}

void makeSiblings(const std::vector<Job *> &jobs) {
  for (Job *job : jobs)
    for (Job *other : jobs)
      if (job != other)
        job->siblings.push_back(other);
  for (auto &[name, instances] : instancesOf(jobs))
    for (Kind kind : allKinds)
      equalize(instances, kind);
}

std::vector<bundle::Kernel> combinedKernels(const std::vector<const Job *> &jobs) {
  std::vector<bundle::Kernel> kernels;
  std::map<std::string, std::size_t> places;
  for (const Job *job : jobs)
    for (const ptx::RewrittenKernel &kernel : job->kernels) {
      bundle::Kernel description = ptx::describe(kernel);
      auto [known, isNew] = places.emplace(description.name, kernels.size());
      if (isNew)
        kernels.push_back(std::move(description));
      else
        combine(kernels[known->second], description);
    }
  return kernels;
}

} // namespace tally::ptxopt
