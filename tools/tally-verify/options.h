// The command line of tally-verify.
#ifndef TALLY_VERIFY_OPTIONS_H
#define TALLY_VERIFY_OPTIONS_H

#include "argument.h"
#include "generator/campaign.h"
#include "input.h"
#include "verify.h"

#include "tally/support/dim3.h"
#include "tally/support/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tally::verify {

enum class DeviceChoice : std::uint8_t { Emulator, Cuda };

struct Options {
  bool help = false, version = false; ///< nothing else is set then
  std::string file, kernel;
  std::string coding; ///< of variants, where FILE is PTX; empty: the default one
  std::uint64_t pollPeriod = defaultPollPeriod; ///< of variants, where FILE is PTX
  LaunchShape shape;
  std::vector<ArgumentSpec> arguments;
  VerifyOptions verify;
  DeviceChoice device = DeviceChoice::Emulator;
  CampaignOptions campaign; ///< where `campaign.count` is not 0: no file and no kernel
  std::string writeFolder;  ///< generated kernels are only written, there
  std::string launches;     ///< a table of launches, all to be run (launches.h)
};

/// `arguments` without the program's name. The error names the option and says what it takes.
Result<Options> parseOptions(std::span<const std::string_view> arguments);

/// `X`, `X,Y` or `X,Y,Z`, each at least 1.
Result<Dim3> parseDim3(std::string_view text);

extern const char *const helpText;

} // namespace tally::verify

#endif
