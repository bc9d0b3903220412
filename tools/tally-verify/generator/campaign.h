// --generate: checks many generated kernels on several threads.
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
  unsigned threads = 0;              ///< 0: the machine's number
  std::filesystem::path keep;        ///< folder for reduced failures; empty: the current folder
  GenerateOptions generate;
  CheckOptions check;
  unsigned maxFailures = 5; ///< after this many failures no more kernels are started
};

struct CampaignFailure {
  std::uint64_t seed = 0;
  CheckFailure failure;
  std::string message;        ///< message of the reduced kernel
  std::string file;           ///< file of the reduced kernel
  std::size_t statements = 0; ///< statements of the reduced kernel
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

/// Generates and checks kernels, and reduces failing ones. Fails only where a file cannot be
/// written.
Result<CampaignReport> runCampaign(const CampaignOptions &options);

/// Writes the seeds of the kernels being checked into `seeds` and returns their number. For a
/// signal handler: an assertion in the rewriter ends the process, and the seed identifies the
/// kernel.
std::size_t seedsUnderWay(std::uint64_t *seeds, std::size_t capacity);

std::string toText(const CampaignReport &report);

/// Writes `count` kernels to `folder`, and launches.txt with a line for each in the form of
/// test/execution: file, kernel, options.
Result<void> writeKernels(const CampaignOptions &options, const std::filesystem::path &folder);

/// "file kernel --grid=… --block=… --arg=…"
std::string launchLine(const GeneratedKernel &kernel, const std::string &file);

} // namespace tally::verify

#endif
