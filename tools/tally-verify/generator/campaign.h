// Many generated kernels, on several threads: --generate.
#ifndef TALLY_VERIFY_GENERATOR_CAMPAIGN_H
#define TALLY_VERIFY_GENERATOR_CAMPAIGN_H

#include "check.h"
#include "generate.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tally::verify {

struct CampaignOptions {
  std::uint64_t count = 0, seed = 1; ///< kernels of the seeds seed, seed + 1, …
  unsigned threads = 0;              ///< 0: as many as the machine has
  std::filesystem::path keep;        ///< reduced failures go here; empty: the current folder
  GenerateOptions generate;
  CheckOptions check;
  unsigned maxFailures = 5; ///< then no more kernels are started
};

struct CampaignFailure {
  std::uint64_t seed = 0;
  CheckFailure failure;
  std::string message;        ///< of the reduced kernel
  std::string file;           ///< where it was written
  std::size_t statements = 0; ///< it has
};

struct KindCount {
  std::uint64_t emitted = 0, runs = 0, launches = 0, yields = 0;
  std::map<std::string, std::uint64_t> refused; ///< by reason
};

struct CampaignReport {
  std::uint64_t kernels = 0;
  double seconds = 0;
  std::map<Kind, KindCount> kinds;
  std::vector<CampaignFailure> failures; ///< by seed
};

/// Generates, checks, and reduces what fails. Fails only where a file cannot be written.
Result<CampaignReport> runCampaign(const CampaignOptions &options);

/// The seeds under way, into `seeds`; how many. For a signal handler: an assertion in the rewriter
/// ends the process, and this tells which kernel did it.
std::size_t seedsUnderWay(std::uint64_t *seeds, std::size_t capacity);

std::string toText(const CampaignReport &report);

/// Writes `count` kernels to `folder`, and launches.txt with a line for each as test/execution has
/// them: file, kernel, options.
Result<void> writeKernels(const CampaignOptions &options, const std::filesystem::path &folder);

/// "file kernel --grid=… --block=… --arg=…"
std::string launchLine(const GeneratedKernel &kernel, const std::string &file);

} // namespace tally::verify

#endif
