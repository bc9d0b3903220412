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
  bool help = false, version = false; ///< the other members are unset then
  std::string file, kernel;
  std::string coding; ///< coding of variants, where FILE is PTX; empty: the default coding
  std::uint64_t pollPeriod = defaultPollPeriod; ///< poll period of variants, where FILE is PTX
  LaunchShape shape;
  std::vector<ArgumentSpec> arguments;
  VerifyOptions verify;
  DeviceChoice device = DeviceChoice::Emulator;
  CampaignOptions campaign; ///< where `campaign.count` is not 0: no file and no kernel
  std::string writeFolder;  ///< folder to which generated kernels are only written
  std::string launches;     ///< file with a table of launches to run (launches.h)
};

/// Parses `arguments`, without the program's name. The error names the option and its valid values.
Result<Options> parseOptions(std::span<const std::string_view> arguments);

/// Parses `X`, `X,Y` or `X,Y,Z`, each at least 1.
Result<Dim3> parseDim3(std::string_view text);

extern const char *const helpText;

} // namespace tally::verify

#endif
