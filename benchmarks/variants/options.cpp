#include "options.h"

#include <charconv>

namespace variant_benchmark {

const char *const helpText =
    "variant_benchmark [--device=cuda|emulator] [--bundle=FILE] [--block-us=T,...] [--waves=N]\n"
    "                  [--waves-per-slice=N] [--repetitions=N]\n\n"
    "Times each variant of each kernel against the user's kernel, taking turns, where nothing "
    "asks\n"
    "to yield. Prints a table: median of the ratios, and the range of their middle half.\n"
    "--block-us sets what a block is made to take, in microseconds.\n";

namespace {

using tally::Error;
using tally::Result;

template <class T> bool readNumber(std::string_view text, T &to) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size() && to > 0;
}

bool readList(std::string_view text, std::vector<double> &to) {
  to.clear();
  while (true) {
    std::size_t comma = text.find(',');
    to.emplace_back();
    if (!readNumber(text.substr(0, comma), to.back()))
      return false;
    if (comma == std::string_view::npos)
      return true;
    text.remove_prefix(comma + 1);
  }
}

bool readDevice(std::string_view text, Options &options) {
  options.emulator = text == "emulator";
  return options.emulator || text == "cuda";
}

} // namespace

Result<Options> parseOptions(std::span<char *const> arguments) {
  Options options;
  for (std::string_view argument : arguments) {
    if (argument == "--help") {
      options.help = true;
      return options;
    }
    std::size_t equals = argument.find('=');
    std::string_view name = argument.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? "" : argument.substr(equals + 1);
    bool good = name == "--device"            ? readDevice(value, options)
                : name == "--block-us"        ? readList(value, options.blockMicroseconds)
                : name == "--waves"           ? readNumber(value, options.waves)
                : name == "--waves-per-slice" ? readNumber(value, options.wavesPerSlice)
                : name == "--repetitions"     ? readNumber(value, options.repetitions)
                : name == "--bundle"          ? (options.bundle = value, !value.empty())
                                              : false;
    if (!good)
      return Error{"no good option: " + std::string(argument) + "; see --help"};
  }
  if (options.emulator) {
    options.waves = 4;
    options.wavesPerSlice = 2;
    options.repetitions = 2;
  }
  return options;
}

} // namespace variant_benchmark
